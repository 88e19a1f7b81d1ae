"""Derivatives of the factors of symmetric matrices."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from graphopt.lowering.ops.linalg.matrices import cholesky


@pytest.mark.parametrize("upper", [False, True])
def test_the_gradient_of_a_cholesky_factor_is_symmetric(*, upper: bool) -> None:
    """As in Paddle, the gradient is symmetric; the other triangle is not read."""
    x = np.array([[5.0, 1.0, -2.0], [1.0, 3.0, 0.5], [-2.0, 0.5, 4.0]])
    found = jax.grad(lambda x: jnp.sum(jnp.cos(cholesky(x, upper=upper))))
    gradient = found(x)
    np.testing.assert_allclose(gradient, gradient.T)
    change = np.array([[0.3, -1.0, 0.2], [-1.0, 0.1, 0.7], [0.2, 0.7, 2.0]])
    step = 1e-6 * change
    values = [np.sum(np.cos(np.linalg.cholesky(x + s))) for s in (step, -step)]
    slope = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(np.sum(gradient * change), slope, rtol=1e-6)
    other = np.where(np.triu(np.ones((3, 3)), 1) > 0, np.nan, x)
    np.testing.assert_array_equal(found(other.T if upper else other), gradient)
