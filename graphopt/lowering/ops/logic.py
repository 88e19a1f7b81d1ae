"""Bitwise ops, and predicates on tensors, in JAX."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import logic as ops
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(ops.BitwiseAnd)
def bitwise_and(x: Array, y: Array) -> Array:
    return x & y


@lowers(ops.BitwiseOr)
def bitwise_or(x: Array, y: Array) -> Array:
    return x | y


@lowers(ops.BitwiseXor)
def bitwise_xor(x: Array, y: Array) -> Array:
    return x ^ y


@lowers(ops.BitwiseNot)
def bitwise_not(x: Array) -> Array:
    return lax.bitwise_not(x)


@lowers(ops.LogicalXor)
def logical_xor(x: Array, y: Array) -> Array:
    return jnp.logical_xor(x, y)


@lowers(ops.Isnan)
def isnan(x: Array) -> Array:
    return jnp.isnan(x)


@lowers(ops.Isinf)
def isinf(x: Array) -> Array:
    return jnp.isinf(x)


@lowers(ops.Isfinite)
def isfinite(x: Array) -> Array:
    return jnp.isfinite(x)


@lowers(ops.EqualAll)
def equal_all(x: Array, y: Array) -> Array:
    return jnp.asarray(False) if x.shape != y.shape else jnp.all(x == y)


@lowers(ops.Isclose)
def isclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    # Paddle compares in float64: a tolerance of 1e-8 is nothing in the narrower types
    x, y = jnp.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
    close = (lax.abs(x - y) <= atol + rtol * lax.abs(y)) | (x == y)
    return close | (jnp.isnan(x) & jnp.isnan(y)) if equal_nan else close


@lowers(ops.Allclose)
def allclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    return jnp.all(isclose(x, y, rtol, atol, equal_nan))
