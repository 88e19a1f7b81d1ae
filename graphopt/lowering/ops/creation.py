"""Tensors of constants in JAX."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import creation as ops
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.base import Array, constant
from graphopt.lowering.registry import lowers


@lowers(ops.Full)
def full(shape: tuple[int, ...], value: float, dtype: DType) -> Array:
    return lax.full(shape, constant(value, dtype.numpy))


def full_op_by_op(shape: tuple[int, ...], value: float, dtype: DType) -> Array:
    """Compute `full` where each op runs by itself: XLA would compile a program for each shape."""
    return jax.device_put(np.full(shape, constant(value, dtype.numpy)), may_alias=False)


@lowers(ops.FullLike)
def full_like(x: Array, value: float, dtype: DType | None) -> Array:
    return lax.full(x.shape, constant(value, dtype.numpy if dtype else x.dtype))


@lowers(ops.AssignValue)
def assign_value(shape: tuple[int, ...], values: tuple[float, ...], dtype: DType) -> Array:
    listed = np.reshape([constant(v, dtype.numpy) for v in values], shape)
    made = jnp.asarray(listed, dtype.numpy)
    # XLA would fold sums of constants at compile time, in float64 for floats
    return lax.optimization_barrier(made) if dtype.is_floating else made


@lowers(ops.Arange)
def arange(start: float, end: float, step: float, dtype: DType) -> Array:
    values = start + step * np.arange(ops.range_length(start, end, step))
    return jnp.asarray(values.astype(dtype.numpy))


@lowers(ops.Linspace)
def linspace(start: float, stop: float, num: int, dtype: DType) -> Array:
    return jnp.asarray(np.linspace(start, stop, num).astype(dtype.numpy))


@lowers(ops.Logspace)
def logspace(start: float, stop: float, num: int, base: float, dtype: DType) -> Array:
    return jnp.asarray(np.power(base, np.linspace(start, stop, num)).astype(dtype.numpy))


@lowers(ops.Eye)
def eye(num_rows: int, num_columns: int, dtype: DType) -> Array:
    columns = num_rows if num_columns == -1 else num_columns
    return jnp.eye(num_rows, columns, dtype=dtype.numpy)
