"""Names by which modules that define layers check inputs, make constants and seed programs."""

from __future__ import annotations

import pytest

import graphopt as paddle
from graphopt import static, tensor
from graphopt.common_ops_import import check_dtype, check_type, check_variable_and_dtype


def test_inputs_of_another_type_are_refused() -> None:
    with static.program_guard(static.Program()):
        x = static.data("x", [2], "float32")
        check_variable_and_dtype(x, "x", ["float32", "int64"], "f")
        with pytest.raises(TypeError, match="'x' in f must be .* received float32"):
            check_variable_and_dtype(x, "x", ["int32"], "f")
    with pytest.raises(TypeError, match="'axis' in f"):
        check_type("a", "axis", (int, list), "f")
    check_dtype("int64", "y", "int64", "f")


def test_constants_and_variables_are_made() -> None:
    with static.program_guard(static.Program()):
        assert tensor.fill_constant([2], "float32", 3.0).shape == (2,)
        assert tensor.create_tensor("int32", name="t").name == "t"


def test_both_default_programs_take_the_seed() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        paddle.framework.random._manual_program_seed(7)
    assert (main.random_seed, startup.random_seed) == (7, 7)


def test_programs_are_never_of_pir() -> None:
    assert not paddle.framework.in_pir_mode()
    assert not paddle.framework.in_dynamic_or_pir_mode()
