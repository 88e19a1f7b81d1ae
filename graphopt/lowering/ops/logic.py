"""Bitwise ops, and predicates on tensors, in JAX."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import logic as ops
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lower_each, lowers

lower_each(
    {
        ops.BitwiseAnd: lambda x, y: x & y,
        ops.BitwiseOr: lambda x, y: x | y,
        ops.BitwiseXor: lambda x, y: x ^ y,
        ops.BitwiseNot: lambda x: lax.bitwise_not(x),
        ops.LogicalXor: lambda x, y: jnp.logical_xor(x, y),
        ops.Isnan: lambda x: jnp.isnan(x),
        ops.Isinf: lambda x: jnp.isinf(x),
        ops.Isfinite: lambda x: jnp.isfinite(x),
        ops.EqualAll: lambda x, y: jnp.asarray(False) if x.shape != y.shape else jnp.all(x == y),
    }
)


@lowers(ops.Isclose)
def isclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    # Paddle compares in float64: narrower types would round a tolerance of 1e-8 away
    x, y = jnp.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
    close = (lax.abs(x - y) <= atol + rtol * lax.abs(y)) | (x == y)
    return close | (jnp.isnan(x) & jnp.isnan(y)) if equal_nan else close


@lowers(ops.Allclose)
def allclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    return jnp.all(isclose(x, y, rtol, atol, equal_nan))
