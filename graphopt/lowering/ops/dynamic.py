"""Data-sized ops and tensor arrays: computed op by op (see `lowering/dynamic.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.core import Tracer

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops import dynamic as ops
from graphopt.lowering.denormals import flushed_denormals
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]


@lowers(ops.Nonzero)
def nonzero(condition: Array) -> Array:
    values = concrete(condition, "the size of nonzero")
    with flushed_denormals():
        found = np.argwhere(values)
    return jnp.asarray(found, "int64")


@lowers(ops.MaskedSelect)
def masked_select(x: Array, mask: Array) -> Array:
    shape = jnp.broadcast_shapes(x.shape, mask.shape)
    chosen = np.broadcast_to(concrete(mask, "the size of masked_select"), shape).reshape(-1)

    def places() -> np.ndarray[Any, Any]:
        found = np.flatnonzero(chosen)
        # half the memory where int32 suffices
        return found.astype(np.int32) if chosen.size <= np.iinfo(np.int32).max else found

    def select(x: Array) -> Array:
        if _is_in_memory(x):
            return jnp.asarray(np.asarray(x).reshape(-1).compress(chosen))
        return x.reshape(-1).at[places()].get(**_KNOWN)

    def put_back(_: None, selected: Array) -> tuple[Array]:
        if not _is_in_memory(selected):
            zeros = jnp.zeros(chosen.size, selected.dtype)
            return (zeros.at[places()].set(selected, **_KNOWN).reshape(shape),)
        out = np.zeros(chosen.size, selected.dtype)
        out[np.flatnonzero(chosen)] = selected
        return (jnp.asarray(out.reshape(shape)),)

    computed = jax.custom_vjp(select)
    computed.defvjp(lambda x: (select(x), None), put_back)
    return computed(x if x.shape == shape else jnp.broadcast_to(x, shape))


# these indices need none of the ops with which JAX checks and wraps indices
_KNOWN: dict[str, Any] = {
    "mode": "promise_in_bounds",
    "indices_are_sorted": True,
    "unique_indices": True,
    "wrap_negative_indices": False,
}


def _is_in_memory(x: Array) -> bool:
    """True for an array whose elements NumPy can read without a copy.

    XLA would compile again for each number of elements.
    """
    if isinstance(x, jax.Array) and not isinstance(x, Tracer):
        return all(device.platform == "cpu" for device in x.devices())
    return isinstance(x, np.ndarray)


@lowers(ops.Unique)
def unique(x: Array, axis: Ints, dtype: Any) -> tuple[Array, ...]:
    values = concrete(x, "the size of unique")
    with flushed_denormals():
        found = None if axis else _unique_integers(values.reshape(-1))
        if found is None:
            found = np.unique(values, True, True, True, axis[0] if axis else None)
    out, *counted = found
    return jnp.asarray(out), *(jnp.asarray(i.reshape(-1), dtype.numpy) for i in counted)


def _unique_integers(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...] | None:
    """Compute NumPy's `unique` of signed integers; None where their range is too large.

    NumPy sorts indices by the numbers there. Numbers with their indices in the low bits it sorts in
    a third of that time.
    """
    count = len(values)
    if values.dtype.kind != "i" or not count:
        return None
    least, bits = int(values.min()), count.bit_length()
    if int(values.max()) - least >= 1 << 63 - bits:
        return None
    keys = np.sort((values.astype(np.int64) - least) << bits | np.arange(count))
    places, ordered = keys & (1 << bits) - 1, keys >> bits
    is_new = np.ones(count, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    starts = np.flatnonzero(is_new)
    inverse = np.empty(count, np.int64)
    inverse[places] = np.cumsum(is_new) - 1
    out = (ordered[starts] + least).astype(values.dtype)
    return out, places[starts], inverse, np.diff(starts, append=count)


@lowers(ops.UniqueConsecutive)
def unique_consecutive(x: Array, axis: Ints, dtype: Any) -> tuple[Array, ...]:
    values = concrete(x, "the size of unique_consecutive")
    slices = np.moveaxis(values, axis[0], 0) if axis else values.reshape(-1)
    rows = slices.reshape(len(slices), math.prod(slices.shape[1:]))
    starts = np.ones(len(rows), bool)
    with flushed_denormals():
        starts[1:] = (rows[1:] != rows[:-1]).any(1)
    first = np.flatnonzero(starts)
    counts = np.diff(np.append(first, len(rows)))
    out = np.moveaxis(slices[first], 0, axis[0]) if axis else slices[first]
    found = (np.cumsum(starts) - 1, counts)
    return jnp.asarray(out), *(jnp.asarray(i, dtype.numpy) for i in found)


@lowers(ops.Bincount)
def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    values = concrete(x, "the size of bincount")
    if values.size and values.min() < 0:
        raise ValueError("bincount: the elements of x must not be negative")
    given = None if weights is None else concrete(weights, "bincount")
    counts = np.bincount(values, given, minlength)
    return jnp.asarray(counts, "int64" if weights is None else weights.dtype)


@lowers(ops.RepeatInterleave)
def repeat_interleave(x: Array, repeats: Array, axis: int) -> Array:
    times = concrete(repeats, "the size of repeat_interleave")
    if times.size and times.min() < 0:
        raise ValueError("repeat_interleave: repeats must not be negative")
    times = np.broadcast_to(times, (x.shape[axis],))
    return jnp.take(x, np.repeat(np.arange(x.shape[axis]), times), axis)


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class RaggedElements:
    """A tensor array whose elements differ in the size of their first axis."""

    elements: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one tensor with all elements; -1 where they differ."""
        return len(self.elements), -1, *self.elements[0].shape[1:]

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, at: int) -> Array:
        return self.elements[at]

    def tree_flatten(self) -> tuple[tuple[Array, ...], None]:
        """Flatten to the elements, for JAX."""
        return self.elements, None

    @classmethod
    def tree_unflatten(cls, _: None, elements: tuple[Array, ...]) -> RaggedElements:
        """Rebuild the array from its elements, for JAX."""
        return cls(tuple(elements))


def elements_of(array: Array | RaggedElements) -> list[Array]:
    """List the elements of a tensor array."""
    return [array[i] for i in range(len(array))]


@lowers(ops.ArrayWrite)
def array_write(array: Array | RaggedElements, position: Array, x: Array) -> Array | RaggedElements:
    at, length = int(concrete(position, "a position in a tensor array").reshape(())), len(array)
    if not 0 <= at <= length:
        raise ProgramError(
            f"position {at} of a tensor array with {length} elements is written; the elements "
            "before it must be written first"
        )
    if not length:
        return x[None]
    is_ragged = isinstance(array, RaggedElements)
    if not is_ragged and array.shape[1:] == x.shape:
        if at == length:
            return jnp.concatenate([array, x[None]])
        return jnp.asarray(array).at[at].set(x)
    if len(array.shape) != x.ndim + 1 or not x.ndim or array.shape[2:] != x.shape[1:]:
        raise ProgramError(
            f"a tensor array with elements of shape {list(array.shape[1:])} cannot take one of "
            f"shape {list(x.shape)}: where its length depends on data, elements differ in their "
            "first axis at most"
        )
    elements = elements_of(array)
    elements[at : at + 1] = [x]
    return RaggedElements(tuple(elements))


@lowers(ops.ArrayRead)
def array_read(array: Array | RaggedElements, position: Array) -> Array:
    at = int(concrete(position, "a position in a tensor array").reshape(()))
    if not 0 <= at < len(array):
        raise ProgramError(
            f"position {at} of a tensor array with {len(array)} elements is read and was never "
            "written"
        )
    return array[at]


@lowers(ops.ArrayToTensor)
def array_to_tensor(
    array: Array | RaggedElements, axis: int, use_stack: bool
) -> tuple[Array, Array]:
    if isinstance(array, RaggedElements):
        sizes = [x.shape[axis] for x in array.elements]
        joined = jnp.stack if use_stack else jnp.concatenate
        return joined(array.elements, axis), jnp.asarray(sizes, np.int32)
    rank = array.ndim - (not use_stack)
    joined = jnp.moveaxis(array, 0, axis % rank)
    size = 1
    if not use_stack:
        at = axis % rank
        size = joined.shape[at + 1]
        joined = joined.reshape(*joined.shape[:at], -1, *joined.shape[at + 2 :])
    return joined, jnp.full((len(array),), size, np.int32)
