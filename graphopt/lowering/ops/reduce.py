"""Reductions over axes in JAX."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dtypes import DType, as_dtype
from graphopt.ir.ops.reduce import Argmax, Max, Mean, Min, Prod, Sum, sum_dtype
from graphopt.ir.types import normalize_axis
from graphopt.lowering.ops.base import Array, widened
from graphopt.lowering.registry import lowers

Axes = tuple[int, ...]


@lowers(Mean)
def mean(x: Array, axis: Axes, keepdim: bool) -> Array:
    return jnp.mean(x, axis or None, keepdims=keepdim)


@lowers(Sum)
def sum_(x: Array, axis: Axes, keepdim: bool, dtype: DType | None) -> Array:
    total = sum_dtype(as_dtype(x.dtype), dtype)
    return jnp.sum(x, axis or None, dtype=total.numpy, keepdims=keepdim)


@lowers(Max)
def max_(x: Array, axis: Axes, keepdim: bool) -> Array:
    return jnp.max(x, axis or None, keepdims=keepdim)


@lowers(Min)
def min_(x: Array, axis: Axes, keepdim: bool) -> Array:
    return jnp.min(x, axis or None, keepdims=keepdim)


@lowers(Prod)
@widened
def prod(x: Array, axis: Axes, keepdim: bool) -> Array:
    return jnp.prod(x, axis or None, dtype=x.dtype, keepdims=keepdim)


@lowers(Argmax)
def argmax(x: Array, axis: int, keepdim: bool, flatten: bool, dtype: DType) -> Array:
    if flatten:
        index = lax.argmax(x.reshape(x.size), 0, dtype.numpy)
        return index.reshape((1,) * x.ndim) if keepdim else index
    axis = normalize_axis(axis, x.ndim)
    index = lax.argmax(x, axis, dtype.numpy)
    return jnp.expand_dims(index, axis) if keepdim else index
