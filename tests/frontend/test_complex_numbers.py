"""Complex constants and operands, their norms, and derivatives at singular points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run

Function = Callable[[Any], Any]
X = np.array([[3, 1 - 2j], [0, 2j]], "complex64")


def value_and_gradient(function: Function, x: Any) -> list[Any]:
    """Compute the result for x, and the gradient of its sum."""
    with fresh():
        given = static.data("x", list(x.shape), str(x.dtype))
        given.stop_gradient = False
        out = function(given)
        loss = paddle.sum(paddle.real(out) if out.dtype.is_complex else out)
        return run([out, static.gradients(loss, [given])[0]], x=x)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("function", "value", "gradient"),
    [
        (
            paddle.norm,
            4.2426405,
            [[0.70710683, 0.23570228 - 0.47140446j], [0, 0.47140446j]],
        ),
        (
            lambda x: paddle.norm(x, 1, axis=0),
            [3, 4.236068],
            [[1, 0.44721359 - 0.89442719j], [0, 1j]],
        ),
        (
            lambda x: paddle.inverse(x + paddle.eye(2, dtype="complex64")),
            [[0.25, 0.15 + 0.2j], [0, 0.2 - 0.4j]],
            [[-0.1 + 0.05j, -0.05 - 0.1j], [-0.18 - 0.01j, 0.01 - 0.18j]],
        ),
        (paddle.angle, [[0, -1.1071488], [0, 1.5707964]], [[1j / 3, 0.4 + 0.2j], [0, -0.5]]),
    ],
)
def test_functions_of_complex_numbers(function: Function, value: Any, gradient: Any) -> None:
    """Norms are real; an angle has derivative 0 at 0."""
    found = value_and_gradient(function, X)
    np.testing.assert_allclose(found[0], value, 1e-5, 1e-6)
    np.testing.assert_allclose(found[1], gradient, 1e-5, 1e-6)


def test_angles_of_zeros() -> None:
    """The angle of a zero depends on the signs of its parts."""
    zeros = np.array([0, complex(-0.0, 0), complex(0, -0.0)], "complex64")
    angles, gradient = value_and_gradient(paddle.angle, zeros)
    np.testing.assert_allclose(angles, np.angle(zeros))
    np.testing.assert_array_equal(gradient, [0, 0, 0])


@pytest.mark.parametrize(
    ("order", "norm", "gradient"),
    [
        (1, 4, [-1, 0, 1]),
        (2, 8**0.5, [-(0.5**0.5), 0, 0.5**0.5]),
        (np.inf, 2, [-1, 0, 1]),
        (-np.inf, 0, [0, 0, 0]),
    ],
)
def test_norms_where_a_number_is_zero_or_two_are_largest(
    order: float, norm: float, gradient: Any
) -> None:
    """A zero has gradient 0; each of several largest numbers has the whole gradient."""
    found = value_and_gradient(lambda x: paddle.norm(x, order), np.array([-2, 0, 2], "float32"))
    np.testing.assert_allclose(found[0], norm, 1e-6)
    np.testing.assert_allclose(found[1], gradient, 1e-6)


@pytest.mark.parametrize(
    ("make", "dtype", "values"),
    [
        (lambda: paddle.to_tensor([1 + 2j]), "complex128", [1 + 2j]),
        (lambda: paddle.to_tensor([1.0, 2.0], "complex64"), "complex64", [1, 2]),
        (lambda: paddle.assign(np.array([[2j]], "complex64")), "complex64", [[2j]]),
        (lambda: paddle.full([2], 1 + 2j), "complex128", [1 + 2j] * 2),
        (lambda: paddle.full([2], 1 + 2j, "complex64"), "complex64", [1 + 2j] * 2),
        (lambda: paddle.full([2], True), "bool", [True, True]),
        (lambda: 1j - paddle.ones([2]), "complex128", [-1 + 1j] * 2),
        (lambda: paddle.ones([2], "complex64") * (1 + 2j), "complex64", [1 + 2j] * 2),
        (lambda: paddle.full([1], 2.0) / (1 + 1j), "complex128", [1 - 1j]),
    ],
)
def test_complex_constants(make: Callable[[], Any], dtype: str, values: Any) -> None:
    """Constants are complex128 without a dtype; a complex operand decides the dtype."""
    with fresh():
        (found,) = run([make()])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, values)


@pytest.mark.parametrize(
    "values", [[1 + 2j, 3 - 1j], list(np.array([1 + 2j, 3 - 1j], "complex64"))]
)
def test_complex_constants_of_saved_programs(values: list[Any]) -> None:
    """Paddle's programs have an `assign_value` of complex numbers."""
    with fresh():
        out = static.default_main_program().global_block().create_var("out")
        attrs = {"shape": [2, 1], "dtype": paddle.complex64, "values": values}
        out.block.append_op("assign_value", {}, {"Out": out}, attrs)
        (found,) = run([out])
    assert found.dtype == "complex64"
    np.testing.assert_array_equal(found, [[1 + 2j], [3 - 1j]])


def test_a_complex_number_in_a_real_tensor() -> None:
    with fresh(), pytest.raises(TypeError, match="'dtype' is float32; pass complex64"):
        paddle.full([2], 1j, "float32")
