"""Linear algebra beyond matrix products in JAX."""

from __future__ import annotations

from functools import partial

import jax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.linalg import matrices as ops
from graphopt.lowering.ops.base import Array, compute_wide, constant, wide
from graphopt.lowering.registry import lower_each, lowers


@jax.custom_jvp
def _cholesky(x: Array) -> Array:
    """Compute the lower Cholesky factor from the lower triangle alone."""
    return jnp.linalg.cholesky(x, symmetrize_input=False)


@_cholesky.defjvp
def _cholesky_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # as in Paddle, the gradient is symmetric
    (change,) = tangents
    tangent = (change + change.mT.conj()) / 2
    return jax.jvp(partial(jnp.linalg.cholesky, symmetrize_input=False), primals, (tangent,))


@lowers(ops.Cholesky)
@compute_wide
def cholesky(x: Array, upper: bool) -> Array:
    return _cholesky(x.mT.conj()).mT.conj() if upper else _cholesky(x)


lower_each(
    {
        ops.Inverse: compute_wide(lambda x: jnp.linalg.inv(x)),
        ops.Diagonal: lambda input, offset, axis1, axis2: jnp.diagonal(input, offset, axis1, axis2),
        ops.Einsum: lambda inputs, equation: jnp.einsum(equation, *inputs),
    }
)


@lowers(ops.Cross)
def cross(x: Array, y: Array, axis: int) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    return jnp.cross(wide(x), wide(y), axis=ops.cross_axis(x.shape, axis)).astype(x.dtype)


@lowers(ops.Trace)
def trace(input: Array, offset: int, axis1: int, axis2: int) -> Array:
    return jnp.sum(jnp.diagonal(input, offset, axis1, axis2), -1, dtype=input.dtype)


@lowers(ops.Diag)
def diag(x: Array, offset: int, padding_value: float) -> Array:
    if x.ndim == 2:
        return jnp.diagonal(x, offset)
    matrix = jnp.diag(x, offset)
    on = jnp.eye(*matrix.shape, k=offset, dtype=bool)
    return jnp.where(on, matrix, constant(padding_value, x.dtype))
