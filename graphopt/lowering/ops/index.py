"""Elements by number along axes in JAX.

Paddle raises for a number that is out of range. So does the runtime for fed numbers; numbers that a
step computes cannot raise, and read nan.
"""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import index as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


def lookup(index: Array, size: int, least: int = 0) -> Array:
    """Convert row numbers to int32; those below `least` or beyond `size` become `size`.

    XLA would cut 64 bits to 32, and JAX counts negative numbers from the end.
    """
    number = index.astype(np.int64)
    return jnp.where((number >= least) & (number < size), number, size).astype(np.int32)


@lowers(ops.Embedding)
def embedding(x: Array, weight: Array, padding_idx: int) -> Array:
    rows = jnp.take(weight, lookup(x, weight.shape[0]), 0, mode="fill")
    if padding_idx == -1:  # Paddle's encoding of no padding index
        return rows
    return jnp.where((x == padding_idx)[..., None], jnp.zeros((), rows.dtype), rows)


@lowers(ops.OneHot)
def one_hot(x: Array, depth: int, dtype: DType) -> Array:
    return (x[..., None] == jnp.arange(depth, dtype=np.int64)).astype(dtype.numpy)


@lowers(ops.Gather)
def gather(x: Array, index: Array, axis: int) -> Array:
    # as in Paddle 3, negative indices count from the end
    rows = lookup(index.reshape(index.shape[:1]), x.shape[axis], -x.shape[axis])
    return jnp.take(x, rows, axis, mode="fill")


@lowers(ops.FillRows)
def fill_rows(x: Array, mask: Array, keep: bool) -> Array:
    kept = mask.reshape(-1) == keep
    if not x.shape[0]:
        return x
    numbers = lax.iota(np.int32, x.shape[0])
    return jnp.take(x, jnp.where(kept, numbers, jnp.argmax(kept).astype(np.int32)), 0)


@lowers(ops.Multiplex)
def multiplex(inputs: tuple[Array, ...], index: Array) -> Array:
    rows = jnp.arange(inputs[0].shape[0])
    return jnp.stack(inputs).at[index.reshape(index.size), rows].get(mode="fill")


@lowers(ops.IndexAdd)
def index_add(x: Array, index: Array, add_value: Array, axis: int) -> Array:
    at = normalize_axis(axis, x.ndim)
    sums = jnp.asarray(wide(x)).at[(slice(None),) * at + (index,)].add(wide(add_value))
    return sums.astype(x.dtype)


@lowers(ops.IndexPut)
def index_put(x: Array, indices: tuple[Array, ...], value: Array, accumulate: bool) -> Array:
    if accumulate:
        return jnp.asarray(wide(x)).at[indices].add(wide(value)).astype(x.dtype)
    return jnp.asarray(x).at[indices].set(value)


@lowers(ops.WriteRows)
def write_rows(x: Array, rows: Array, at: Array, axis: int) -> Array:
    out = lax.dynamic_update_slice_in_dim(x, rows, at.reshape(()), normalize_axis(axis, x.ndim))
    # XLA would fuse the write into each of its readers, and write into a separate copy each time
    return lax.optimization_barrier(out)


@lowers(ops.DiagEmbed)
def diag_embed(input: Array, offset: int, dim1: int, dim2: int) -> Array:
    first, second = ops.matrix_axes(input.ndim + 1, dim1, dim2)
    length = input.shape[-1]
    size, numbers = length + abs(offset), np.arange(length)
    matrices = jnp.zeros((*input.shape[:-1], size, size), input.dtype)
    placed = matrices.at[..., numbers - min(offset, 0), numbers + max(offset, 0)].set(input)
    return jnp.moveaxis(placed, (-2, -1), (first, second))


@lowers(ops.ShardIndex)
def shard_index(
    input: Array, index_num: int, nshards: int, shard_id: int, ignore_value: int
) -> Array:
    size = np.asarray(-(-index_num // nshards), input.dtype)
    mine = input // size == np.asarray(shard_id, input.dtype)
    return jnp.where(mine, input % size, np.asarray(ignore_value, input.dtype))


@lowers(ops.DequantizeRows)
def dequantize_rows(x: Array) -> Array:
    low, high = x[..., :1], x[..., 1:2]
    steps = lax.bitcast_convert_type(x[..., 2:], np.uint8)
    steps = steps.reshape(*x.shape[:-1], -1).astype(x.dtype)
    return lax.stop_gradient(low + steps * ((high - low) / 256))
