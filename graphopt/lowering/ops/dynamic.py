"""Data-sized ops and tensor arrays: computed op by op (see `lowering/dynamic.py`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import numpy as jnp

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.dynamic import (
    ArrayRead,
    ArrayToTensor,
    ArrayWrite,
    Bincount,
    MaskedSelect,
    Nonzero,
    RepeatInterleave,
    Unique,
    UniqueConsecutive,
)
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]


@lowers(Nonzero)
def nonzero(condition: Array) -> Array:
    found = np.argwhere(concrete(condition, "the size of nonzero"))
    return jnp.asarray(found, "int64")


@lowers(MaskedSelect)
def masked_select(x: Array, mask: Array) -> Array:
    shape = jnp.broadcast_shapes(x.shape, mask.shape)
    chosen = np.broadcast_to(concrete(mask, "the size of masked_select"), shape)
    return jnp.broadcast_to(x, shape).reshape(-1)[np.flatnonzero(chosen)]


@lowers(Unique)
def unique(x: Array, axis: Ints, dtype: Any) -> tuple[Array, ...]:
    values = concrete(x, "the size of unique")
    out, *found = np.unique(
        values,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis[0] if axis else None,
    )
    return jnp.asarray(out), *(jnp.asarray(i.reshape(-1), dtype.numpy) for i in found)


@lowers(UniqueConsecutive)
def unique_consecutive(x: Array, axis: Ints, dtype: Any) -> tuple[Array, ...]:
    values = concrete(x, "the size of unique_consecutive")
    slices = np.moveaxis(values, axis[0], 0) if axis else values.reshape(-1)
    rows = slices.reshape(len(slices), math.prod(slices.shape[1:]))
    starts = np.ones(len(rows), bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(1)
    first = np.flatnonzero(starts)
    counts = np.diff(np.append(first, len(rows)))
    out = np.moveaxis(slices[first], 0, axis[0]) if axis else slices[first]
    found = (np.cumsum(starts) - 1, counts)
    return jnp.asarray(out), *(jnp.asarray(i, dtype.numpy) for i in found)


@lowers(Bincount)
def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    values = concrete(x, "the size of bincount")
    if values.size and values.min() < 0:
        raise ValueError("bincount: the elements of x must not be negative")
    given = None if weights is None else concrete(weights, "bincount")
    counts = np.bincount(values, given, minlength)
    return jnp.asarray(counts, "int64" if weights is None else weights.dtype)


@lowers(RepeatInterleave)
def repeat_interleave(x: Array, repeats: Array, axis: int) -> Array:
    times = concrete(repeats, "the size of repeat_interleave")
    if times.size and times.min() < 0:
        raise ValueError("repeat_interleave: repeats must not be negative")
    times = np.broadcast_to(times, (x.shape[axis],))
    return jnp.take(x, np.repeat(np.arange(x.shape[axis]), times), axis)


@lowers(ArrayWrite)
def array_write(array: Array, position: Array, x: Array) -> Array:
    at, length = int(concrete(position, "a position in a tensor array").reshape(())), len(array)
    if not 0 <= at <= length:
        raise ProgramError(
            f"position {at} of a tensor array with {length} elements is written; the elements "
            "before it must be written first"
        )
    if length and array.shape[1:] != x.shape:
        raise ProgramError(
            f"a tensor array with elements of shape {list(array.shape[1:])} cannot take one of "
            f"shape {list(x.shape)}: an array whose length depends on data must have one shape"
        )
    if not length:
        return x[None]
    return jnp.asarray(array).at[at].set(x) if at < length else jnp.concatenate([array, x[None]])


@lowers(ArrayRead)
def array_read(array: Array, position: Array) -> Array:
    at = int(concrete(position, "a position in a tensor array").reshape(()))
    if not 0 <= at < len(array):
        raise ProgramError(
            f"position {at} of a tensor array with {len(array)} elements is read and was never "
            "written"
        )
    return array[at]


@lowers(ArrayToTensor)
def array_to_tensor(array: Array, axis: int, use_stack: bool) -> tuple[Array, Array]:
    rank = array.ndim - (not use_stack)
    joined = jnp.moveaxis(array, 0, axis % rank)
    size = 1
    if not use_stack:
        at = axis % rank
        size = joined.shape[at + 1]
        joined = joined.reshape(*joined.shape[:at], -1, *joined.shape[at + 2 :])
    return joined, jnp.full((len(array),), size, np.int32)
