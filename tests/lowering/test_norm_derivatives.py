"""The hand-written derivatives of norms and softmax, and their accuracy far from zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from graphopt.lowering.collectives import ALONE
from graphopt.lowering.ops.activation import softmax
from graphopt.lowering.ops.norm import batch_norm, group_norm, layer_norm

Array = Any
SHAPE = (16, 6, 4, 4)
BATCH = {
    "momentum": 0.9,
    "epsilon": 1e-5,
    "is_test": False,
    "use_global_stats": False,
    "trainable_statistics": False,
    "sync": False,
    "replicas": ALONE,
}


def by_channel(x: Array, scale: Array, bias: Array) -> Array:
    moving = jnp.zeros(6, x.dtype), jnp.ones(6, x.dtype)
    return batch_norm(x, *moving, scale, bias, data_format="NCHW", **BATCH)[0]


def by_row(x: Array, scale: Array, bias: Array) -> Array:
    row = [jnp.repeat(v, 16) for v in (scale, bias)]
    out, mean, variance = layer_norm(x, *row, 1e-5, 1)
    # their gradients count
    return out + (mean + jnp.tanh(variance)).reshape(-1, 1, 1, 1)


def by_group(x: Array, scale: Array, bias: Array) -> Array:
    return group_norm(x, scale, bias, 1e-5, 2, "NCHW")[0]


def probabilities(x: Array, scale: Array, bias: Array) -> Array:
    return softmax(x * jnp.mean(scale) + jnp.mean(bias), axis=1)


FUNCTIONS = pytest.mark.parametrize(
    "function", [by_channel, by_row, by_group, probabilities], ids=lambda f: f.__name__
)


def gradients(function: Callable[..., Array], x: Array, weights: Array) -> list[Array]:
    """Compute the gradients of a weighted sum by operand, scale and bias, in the dtype of x."""
    with jax.enable_x64(True):
        scale, bias = (jnp.linspace(low, 2.0, 6, dtype=x.dtype) for low in (0.5, -1.0))

        def loss(*operands: Array) -> Array:
            return jnp.sum(function(*operands) * weights.astype(x.dtype))

        found = jax.jit(jax.grad(loss, (0, 1, 2)))(jnp.asarray(x), scale, bias)
        return [np.asarray(each) for each in found]


@pytest.mark.every(3)
@FUNCTIONS
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_far_from_zero(function: Callable[..., Array], mean: float) -> None:
    """With a mean of 10,000 deviations only the digits of the float32 mean are lost.

    The difference of the mean square and the square of the mean would have no correct digit.
    """
    rng = np.random.default_rng(0)
    # as float32 has them: float64 then computes with the same numbers
    x = (rng.normal(size=SHAPE) + mean).astype("float32")
    weights = rng.normal(size=SHAPE)
    exact = gradients(function, x.astype("float64"), weights)
    for wanted, found in zip(exact, gradients(function, x, weights), strict=True):
        # a wrong mean counts once for each weight that is summed
        summed = np.abs(weights).sum() / 6 if wanted.ndim == 1 else np.abs(weights).max()
        scale = np.abs(wanted).max() + summed
        assert np.abs(found - wanted).max() <= (3e-5 + mean * 2**-23) * scale


@pytest.mark.every(3)
@FUNCTIONS
def test_derivatives(function: Callable[..., Array]) -> None:
    """First and second derivatives along a line equal finite differences, in float64."""
    rng = np.random.default_rng(1)
    x, weights, way = rng.normal(size=(3, *SHAPE))
    step = 1e-5
    with jax.enable_x64(True):
        scale, bias = jnp.linspace(0.5, 2.0, 6), jnp.linspace(-1.0, 2.0, 6)

        def loss(x: Array) -> Array:
            return jnp.sum(function(x, scale, bias) * weights)

        slope = jax.jit(jax.grad(loss))
        bent = jax.jit(lambda x, way: jax.vjp(slope, x)[1](way)[0])
        second = np.asarray(bent(x, way))
        value = jax.jit(loss)
        rise = (value(x + step * way) - value(x - step * way)) / (2 * step)
        bend = np.asarray(slope(x + step * way) - slope(x - step * way)) / (2 * step)
        np.testing.assert_allclose(jnp.sum(slope(x) * way), rise, rtol=1e-6)
    np.testing.assert_allclose(second, bend, rtol=1e-5, atol=1e-6)
