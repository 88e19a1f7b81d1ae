"""Small members of Paddle 1: types in attributes, initializers of float16, records, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import compat, fluid
from graphopt.fluid import core, initializer, layers
from graphopt.fluid.inference import PaddleBuf
from graphopt_tests.frontend.programs import fresh


def test_the_number_of_a_dtype_equals_the_dtype() -> None:
    with fresh() as (main, _):
        layers.cast(fluid.data("x", [2], "float32"), "int64")
        op = main.global_block().ops[-1]
    kinds = core.VarDesc.VarType
    assert op.attr("in_dtype") == kinds.FP32 and op.attr("out_dtype") == kinds.INT64
    assert op.attr("in_dtype") != kinds.FP64 and op.attr("out_dtype") == 3


def test_float16_is_filled_in_float32() -> None:
    with fresh() as (_, startup):
        made = initializer.ConstantInitializer(0.1)
        layers.create_parameter([2], "float16", "w", default_initializer=made)
        assert [op.type for op in startup.global_block().ops] == ["fill_constant", "cast"]
        executor: Any = fluid.Executor(fluid.CPUPlace())
        executor.run(startup)
        (value,) = executor.run(startup, fetch_list=["w"])
    assert value.dtype == "float16"
    np.testing.assert_array_equal(value, np.float32([0.1, 0.1]).astype("float16"))


def test_operators_with_blocks_have_no_device() -> None:
    with fresh() as (main, _):
        i = layers.fill_constant([1], "int64", 0)
        goes_on = layers.less_than(i, layers.fill_constant([1], "int64", 3))
        with fluid.device_guard("cpu"):
            loop = layers.While(goes_on)
            with pytest.warns(UserWarning, match=r"Op\(while\) is not support"), loop.block():
                layers.increment(i, in_place=True)
                layers.less_than(i, layers.fill_constant([1], "int64", 3), cond=goes_on)
        (op,) = [op for op in main.global_block().ops if op.type == "while"]
        assert op.attr("op_device") == ""


def test_records_without_a_dtype() -> None:
    """A record with a shape is float32; a program with a variable without dtype has no text."""
    block = core.ProgramDesc().block(0)
    variable = block.var("x")
    variable.set_shape([2, 3])
    assert variable.dtype() == "float32"
    with fresh() as (main, _):
        main.global_block().create_var("t", [1])
        with pytest.raises(ValueError, match="'t' has no dtype"):
            main.to_string(True)
        assert "t" in main.to_string()


def test_compat_and_buffers() -> None:
    given = {b"a": b"b"}
    found = compat.to_text(given)
    assert found == {"a": "b"} and given == {b"a": b"b"}
    assert compat.to_text(given, inplace=True) is given and given == found
    with pytest.raises(TypeError):
        compat.round(None)  # pyright: ignore
    with pytest.raises(AssertionError, match="'exc' is None"):
        compat.get_exception_message(None)
    assert PaddleBuf(np.array([1.5])).tolist("int32") == [1]


def test_the_thread_of_a_reader() -> None:
    with fresh():
        x = fluid.data("x", [None, 1], "float32")
        reader: Any = fluid.io.PyReader([x], capacity=2, iterable=False)
        reader.decorate_batch_generator(lambda: iter([[np.ones((2, 1), "float32")]]))
        assert reader.thread is None
        reader.start()
        reader.thread.join(10)
        assert not reader.thread.is_alive()
        reader.reset()
