"""gelu in its two forms: the error of the result and of the derivative, at every size of x."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from graphopt.lowering.ops.activation import gelu

X = np.concatenate([np.linspace(-30, 30, 2001), [-8.0, -5.0, -1e-6, 0.0, 1e-6]])
VALUES = np.array([0.5 * x * math.erfc(-x / math.sqrt(2)) for x in X])
SLOPES = np.array(
    [
        0.5 * math.erfc(-x / math.sqrt(2)) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        for x in X
    ]
)


@pytest.mark.parametrize(("dtype", "error"), [("float32", 8e-7), ("float64", 1e-14)])
def test_error_everywhere(dtype: str, error: float) -> None:
    """The error is a few units in the last place of 1, on both tails and between them."""
    with jax.enable_x64(True):
        found, back = jax.vjp(lambda x: gelu(x=x, approximate=False), X.astype(dtype))
        (slope,) = back(np.ones_like(X, dtype))
    large = np.maximum(np.abs(VALUES), 1)
    assert np.max(np.abs(np.asarray(found) - VALUES) / large) < error
    assert np.max(np.abs(np.asarray(slope) - SLOPES)) < error


def test_float64_keeps_digits_of_the_tail() -> None:
    """In float64 the negative tail is accurate, where 1 + erf would cancel."""
    with jax.enable_x64(True):
        found = np.asarray(gelu(x=np.float64([-8.0, -5.0]), approximate=False))
    np.testing.assert_allclose(found, VALUES[-5:-3], rtol=1e-12)


def test_extremes() -> None:
    """gelu is 0 far on the negative side, x on the positive side, and nan for nan."""
    x = np.float32([-1e30, -40, 40, 1e30, np.inf, np.nan])
    with jax.enable_x64(True):
        found = np.asarray(gelu(x=x, approximate=False))
    np.testing.assert_array_equal(found, np.float32([0, 0, 40, 1e30, np.inf, np.nan]))
