"""Tensor arrays of open length, for where arrays have values (`lowering/dynamic.py`)."""

from __future__ import annotations

import numpy as np
from jax import numpy as jnp

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.array import ArrayRead, ArrayToTensor, ArrayWrite
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


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
