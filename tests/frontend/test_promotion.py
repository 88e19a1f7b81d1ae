"""Result dtypes of functions of two tensors, as in Paddle 3.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import OperandError
from graphopt_tests.frontend.programs import fresh, run

PAIRS = [
    ("float32", "float64", "float64"),
    ("float64", "float16", "float64"),
    ("float16", "float32", "float32"),
    ("complex64", "float64", "complex128"),
    ("int64", "complex64", "complex64"),
]
FUNCTIONS = [
    *("add", "subtract", "multiply", "divide", "pow"),
    *("equal", "not_equal", "logical_and", "where"),
]


@pytest.mark.parametrize(("left", "right", "wanted"), PAIRS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_wider_dtype_counts(name: str, left: str, right: str, wanted: str) -> None:
    """The wider of two floats wins, complex wins over any other, and comparisons give bools."""
    with fresh():
        x, y = static.data("x", [2], left), static.data("y", [2], right)
        given = (paddle.ones([2], "bool"),) if name == "where" else ()
        found = getattr(paddle, name)(*given, x, y)
        is_answer = name in ("equal", "not_equal", "logical_and")
        assert found.dtype == ("bool" if is_answer else wanted)


@pytest.mark.parametrize("name", ["maximum", "fmin", "floor_divide", "mod", "atan2"])
def test_real_functions(name: str) -> None:
    with fresh():
        x, y = static.data("x", [2], "float32"), static.data("y", [2], "float64")
        assert getattr(paddle, name)(x, y).dtype == "float64"


def test_numbers_keep_their_digits() -> None:
    """The narrower operand is converted before the function."""
    with fresh():
        x, y = static.data("x", [1], "float32"), static.data("y", [1], "float64")
        feed = {"x": np.array([1], "float32"), "y": np.array([1e-12])}
        (found,) = run([paddle.add(x, y)], **feed)
    assert found[0] == 1 + 1e-12


@pytest.mark.parametrize(("left", "right"), [("int32", "int64"), ("int64", "float32")])
def test_other_pairs_are_refused(left: str, right: str) -> None:
    with fresh(), pytest.raises(TypeError, match="one dtype"):
        paddle.add(static.data("x", [2], left), static.data("y", [2], right))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("operate", "dtype", "wanted"),
    [
        # by 2.6.2, which has these of booleans; 3.3.1 gives int64
        (lambda x: x + 1, "bool", [True, True]),
        (lambda x: 2 - x, "bool", [True, True]),
        (lambda x: x * 2, "bool", [True, False]),
        (lambda x: x - True, "bool", [True, True]),
        # by 3.3.1, as 2.6.2 has no such kernel
        (lambda x: x // 1, "int64", [1, 0]),
        (lambda x: x % True, "int64", [0, 0]),
        (lambda x: x**2, "int64", [1, 0]),
        (lambda x: 2**x, "int64", [2, 1]),
        # by both
        (lambda x: x * 0.5, "float32", [0.5, 0.0]),
        (lambda x: x / 2, "float32", [0.5, 0.0]),
        (lambda x: x == 3, "bool", [True, False]),
    ],
)
def test_booleans_beside_numbers(operate: Callable[[Any], Any], dtype: str, wanted: Any) -> None:
    with fresh():
        found = operate(static.data("x", [2], "bool"))
        (value,) = run([found], x=np.array([True, False]))
    assert (found.dtype, value.dtype, value.tolist()) == (dtype, dtype, wanted)


@pytest.mark.parametrize("name", ["divide", "floor_divide", "mod", "pow"])
def test_booleans_have_no_quotient(name: str) -> None:
    with fresh():
        x = static.data("x", [2], "bool")
        with pytest.raises(OperandError, match=r"no quotient.*astype"):
            getattr(paddle, name)(x, x)
