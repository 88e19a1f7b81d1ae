"""Linear algebra beyond matrix products in JAX."""

from __future__ import annotations

from jax import numpy as jnp

from graphopt.ir.dialect.ops.linalg.matrices import (
    Cholesky,
    Cross,
    Diag,
    Diagonal,
    Einsum,
    Inverse,
    Trace,
    cross_axis,
)
from graphopt.lowering.ops.base import Array, constant, wide, widened
from graphopt.lowering.registry import lowers


@lowers(Cholesky)
@widened
def cholesky(x: Array, upper: bool) -> Array:
    return jnp.linalg.cholesky(x, upper=upper, symmetrize_input=False)


@lowers(Inverse)
@widened
def inverse(x: Array) -> Array:
    return jnp.linalg.inv(x)


@lowers(Cross)
def cross(x: Array, y: Array, axis: int) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    return jnp.cross(wide(x), wide(y), axis=cross_axis(x.shape, axis)).astype(x.dtype)


@lowers(Diagonal)
def diagonal(input: Array, offset: int, axis1: int, axis2: int) -> Array:
    return jnp.diagonal(input, offset, axis1, axis2)


@lowers(Trace)
def trace(input: Array, offset: int, axis1: int, axis2: int) -> Array:
    return jnp.sum(jnp.diagonal(input, offset, axis1, axis2), -1, dtype=input.dtype)


@lowers(Diag)
def diag(x: Array, offset: int, padding_value: float) -> Array:
    if x.ndim == 2:
        return jnp.diagonal(x, offset)
    matrix = jnp.diag(x, offset)
    on = jnp.eye(*matrix.shape, k=offset, dtype=bool)
    return jnp.where(on, matrix, constant(padding_value, x.dtype))


@lowers(Einsum)
def einsum(inputs: tuple[Array, ...], equation: str) -> Array:
    return jnp.einsum(equation, *inputs)
