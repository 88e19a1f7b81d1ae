"""Derivatives of products over rows with no, one and several zeros equal JAX's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from graphopt.lowering.ops.reduce import prod


@pytest.mark.parametrize(
    ("axis", "keepdim"),
    [
        ((0, 2), True),
        pytest.param((1,), False, marks=pytest.mark.exhaustive),
        pytest.param((), True, marks=pytest.mark.exhaustive),
    ],
)
def test_derivatives(axis: tuple[int, ...], keepdim: bool) -> None:
    x = np.random.default_rng(0).normal(size=(4, 5, 3))
    x[0, 0] = x[1, :2, 0] = x[2, 1, 1] = 0

    def found(x: Any) -> Any:
        return prod(x=x, axis=axis, keepdim=keepdim)

    def expected(x: Any) -> Any:
        return jnp.prod(x, axis or None, keepdims=keepdim)

    def both(function: Any) -> Any:
        def first(x: Any) -> Any:
            return jax.grad(lambda x: jnp.sum(jnp.sin(function(x) + 1)))(x)

        return function(x), first(x), jax.grad(lambda x: jnp.sum(jnp.cos(first(x))))(x)

    with jax.enable_x64(True):
        pairs = zip(both(found), both(expected), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
