"""`+x`, `3 | x`, `x << 1` and `@` with the Variable on the right; numbers of Paddle 3.3.1."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from graphopt import static
from graphopt_tests.frontend.programs import fresh, run


@pytest.mark.parametrize(
    ("operate", "wanted"),
    [
        (lambda x: +x, [1, 6, 12]),
        (lambda x: 3 | x, [3, 7, 15]),
        (lambda x: 3 ^ x, [2, 5, 15]),
        (lambda x: 3 & x, [1, 2, 0]),
        (lambda x: x << 1, [2, 12, 24]),
        (lambda x: x >> 1, [0, 3, 6]),
        (lambda x: 1 << x, [2, 64, 4096]),
        (lambda x: 100 >> x, [50, 1, 0]),
        (lambda x: x << (x > 100).astype("int64"), [1, 6, 12]),
    ],
)
def test_bits_of_a_tensor_and_a_number(operate: Any, wanted: Any) -> None:
    with fresh():
        x = static.data("x", [3], "int64")
        (found,) = run([operate(x)], x=np.array([1, 6, 12]))
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.int64


def test_bools_and_numbers_that_have_no_bits() -> None:
    """Next to a bool any number but 0 is true; fractions and the plus of a bool are errors."""
    with fresh():
        x = static.data("x", [2], "bool")
        (found,) = run([3 | x], x=np.array([True, False]))
        with pytest.raises(TypeError):
            operator.or_(1.5, x)
        with pytest.raises(TypeError, match="bool"):
            operator.pos(x)
    np.testing.assert_array_equal(found, [True, True])


def test_a_product_from_the_left() -> None:
    with fresh():
        x, y = static.data("x", [2, 2], "float32"), static.data("y", [2, 2], "float32")
        given = {"x": np.eye(2, dtype="float32") * 2, "y": np.array([[1, 2], [3, 4]], "float32")}
        (found,) = run([x.__rmatmul__(y)], **given)
    np.testing.assert_array_equal(found, [[2, 4], [6, 8]])
