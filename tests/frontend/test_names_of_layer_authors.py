"""Names that modules with layers use to check inputs, make constants and seed programs."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static, tensor
from graphopt.common_ops_import import check_dtype, check_type, check_variable_and_dtype
from graphopt.tensor import math


def test_inputs_of_another_type_are_refused() -> None:
    with static.program_guard(static.Program()):
        x = static.data("x", [2], "float32")
        check_variable_and_dtype(x, "x", ["float32", "int64"], "f")
        with pytest.raises(TypeError, match=r"'x' in f must be .* received float32"):
            check_variable_and_dtype(x, "x", ["int32"], "f")
    with pytest.raises(TypeError, match="'axis' in f"):
        check_type("a", "axis", (int, list), "f")
    check_dtype("int64", "y", "int64", "f")


def test_constants_and_variables_are_made() -> None:
    with static.program_guard(static.Program()):
        assert tensor.fill_constant([2], "float32", 3.0).shape == (2,)
        assert tensor.create_tensor("int32", name="t").name == "t"


def test_notes_about_a_variable() -> None:
    with static.program_guard(static.Program()):
        x = static.data("x", [2], "float32")
        x._set_info("rank", 3)
        assert x._get_info("rank") == 3
        assert x._get_info("other") is None


def test_the_seed_is_that_of_new_programs_too() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        paddle.framework.random._manual_program_seed(7)
        new = static.Program()
        paddle.framework.random._manual_program_seed(0)
    assert (new.random_seed, main.random_seed, startup.random_seed) == (7, 0, 0)


def test_programs_are_never_of_pir() -> None:
    assert not paddle.framework.in_pir_mode()
    assert not paddle.framework.in_dynamic_or_pir_mode()


def test_the_second_operand_starts_at_an_axis() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = tensor.fill_constant([2, 3], "float32", 8.0)
        y = static.data("y", [2], "float32")
        found = [
            make(x, y, axis=0)
            for make in (
                math._add_with_axis,
                math._subtract_with_axis,
                math._multiply_with_axis,
                math._divide_with_axis,
            )
        ]
    fed = np.array([2, 4], "float32")
    values = static.Executor().run(main, {"y": fed}, found)
    column = fed[:, None] + np.zeros((2, 3), "float32")
    for value, want in zip(values, (8 + column, 8 - column, 8 * column, 8 / column), strict=True):
        np.testing.assert_array_equal(value, want)


def test_a_test_program_has_no_variables_of_training() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [4, 2], "float32")
        static.data("unused", [4], "float32")
        loss = paddle.mean(static.nn.fc(x, 3))
        before = main.clone(for_test=True)
        paddle.optimizer.Momentum(0.1).minimize(loss)
    after = main.clone(for_test=True)
    assert list(after.global_block().vars) == list(before.global_block().vars)


def test_a_variable_can_be_fed_in_any_shape() -> None:
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [2], "float32")
        out = x + 1.0
    x.desc.set_need_check_feed(False)
    assert not x.desc.need_check_feed()
    (value,) = static.Executor().run(main, {"x": np.ones(3, "float32")}, [out])
    assert value.shape == (3,)


def test_layers_keep_what_they_were_made_of() -> None:
    """Layers keep their arguments as attributes, where models of users read them."""
    nn = paddle.nn
    with static.program_guard(static.Program()):
        table = nn.Embedding(4, 3)
        assert (table._num_embeddings, table._embedding_dim, table._size) == (4, 3, [4, 3])
        linear = nn.Linear(2, 3, bias_attr=False)
        assert (linear._weight_attr, linear._bias_attr) == (None, False)
        back = nn.Conv2DTranspose(2, 4, 3, stride=2)
        assert (back._in_channels, back._out_channels, back._stride) == (2, 4, 2)
        assert (back._kernel_size, back._groups, back._data_format) == ([3, 3], 1, "NCHW")
        assert nn.Conv2D(2, 4, 3, bias_attr=False)._bias_attr is False
        assert (nn.MaxPool2D(2, 1).ksize, nn.AvgPool2D(2, 1).stride) == (2, 1)
        norm = nn.BatchNorm2D(3, weight_attr=False)
        assert (norm._num_features, norm._weight_attr, norm._bias_attr) == (3, False, None)
        older = nn.BatchNorm(3, momentum=0.8)
        assert (older._momentum, older._epsilon, older._param_attr) == (0.8, 1e-05, None)
