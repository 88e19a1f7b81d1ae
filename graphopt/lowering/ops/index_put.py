"""Elements at given numbers along axes, on diagonals, or into shards, in JAX."""

from __future__ import annotations

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.index_put import DiagEmbed, IndexAdd, IndexPut, ShardIndex, matrix_axes
from graphopt.ir.dialect.types import normalize_axis
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(IndexAdd)
def index_add(x: Array, index: Array, add_value: Array, axis: int) -> Array:
    at = normalize_axis(axis, x.ndim)
    return jnp.asarray(x).at[(slice(None),) * at + (index,)].add(add_value)


@lowers(IndexPut)
def index_put(x: Array, indices: tuple[Array, ...], value: Array, accumulate: bool) -> Array:
    target = jnp.asarray(x).at[indices]
    return target.add(value) if accumulate else target.set(value)


@lowers(DiagEmbed)
def diag_embed(input: Array, offset: int, dim1: int, dim2: int) -> Array:
    first, second = matrix_axes(input.ndim + 1, dim1, dim2)
    length = input.shape[-1]
    size, numbers = length + abs(offset), np.arange(length)
    matrices = jnp.zeros((*input.shape[:-1], size, size), input.dtype)
    placed = matrices.at[..., numbers - min(offset, 0), numbers + max(offset, 0)].set(input)
    return jnp.moveaxis(placed, (-2, -1), (first, second))


@lowers(ShardIndex)
def shard_index(
    input: Array, index_num: int, nshards: int, shard_id: int, ignore_value: int
) -> Array:
    size = np.asarray(-(-index_num // nshards), input.dtype)
    mine = input // size == np.asarray(shard_id, input.dtype)
    return jnp.where(mine, input % size, np.asarray(ignore_value, input.dtype))
