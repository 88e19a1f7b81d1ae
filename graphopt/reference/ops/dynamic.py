"""Results whose sizes depend on data, and tensor arrays."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import dynamic as ops
from graphopt.reference.ragged import Ragged
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array, value_of

Ints = tuple[int, ...]


@rule(ops.Nonzero)
def nonzero(condition: Array) -> Array:
    return np.stack(np.nonzero(value_of(condition)), 1)


@rule(ops.MaskedSelect)
def masked_select(x: Array, mask: Array) -> Array:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    chosen = np.flatnonzero(np.broadcast_to(mask, shape))
    return np.take(np.reshape(np.broadcast_to(x, shape), -1), chosen, 0)


@rule(ops.Unique)
def unique(x: Array, axis: Ints) -> tuple[Array, ...]:
    along = axis[0] if axis else None
    _, first, inverse, counts = np.unique(value_of(x), True, True, True, along)
    flat = np.reshape(x, -1) if along is None else x
    return np.take(flat, first, along or 0), first, np.reshape(inverse, -1), counts


@rule(ops.UniqueConsecutive)
def unique_consecutive(x: Array, axis: Ints) -> tuple[Array, ...]:
    items = np.moveaxis(x, axis[0], 0) if axis else np.reshape(x, -1)
    # consecutive items are equal if no element differs
    changes = np.not_equal(value_of(items)[1:], value_of(items)[:-1])
    is_new = np.any(changes, axis=tuple(range(1, items.ndim)))
    is_new = np.concatenate([np.ones(min(1, len(items)), bool), is_new])
    first = np.flatnonzero(is_new)
    kept = np.take(items, first, 0)
    ends = np.append(first[1:], len(items))[: len(first)]
    return np.moveaxis(kept, 0, axis[0]) if axis else kept, np.cumsum(is_new) - 1, ends - first


@rule(ops.Bincount)
def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    if np.any(x < 0):
        raise Unsupported("pd.bincount", "an element is negative")
    length = max(minlength, int(np.max(x, initial=-1)) + 1)
    hits = np.equal(np.reshape(x, (1, -1)), np.arange(length)[:, None])
    return np.sum(hits if weights is None else np.where(hits, weights, 0), 1)


@rule(ops.RepeatInterleave)
def repeat_interleave(x: Array, repeats: Array, axis: int) -> Array:
    if np.any(repeats < 0):
        raise Unsupported("pd.repeat_interleave", "an item is repeated a negative number of times")
    items = np.arange(x.shape[axis])
    times = np.broadcast_to(repeats, items.shape)
    return np.take(x, np.repeat(items, times), axis)


@rule(ops.ArrayWrite)
def array_write(array: Array | Ragged, position: Array, x: Array) -> Array | Ragged:
    length, place = len(array), int(np.reshape(position, -1)[0])
    if not 0 <= place <= length:
        raise Unsupported("pd.array_write", f"position {place} is beyond its {length} elements")
    if not length:
        return x[None]
    if isinstance(array, Ragged) or array.shape[1:] != x.shape:
        if x.ndim != len(array.shape) - 1 or not x.ndim or x.shape[1:] != array.shape[2:]:
            raise Unsupported("pd.array_write", "elements differ in more than their first axis")
        return Ragged([*array[:place], x, *array[place + 1 :]])
    return np.concatenate([array[:place], x[None], array[place + 1 :]], 0)


@rule(ops.ArrayRead)
def array_read(array: Array | Ragged, position: Array) -> Array:
    place = int(np.reshape(position, -1)[0])
    if not 0 <= place < len(array):
        raise Unsupported("pd.array_read", f"position {place} was never written")
    return array[place]


@rule(ops.ArrayToTensor)
def array_to_tensor(array: Array | Ragged, axis: int, use_stack: bool) -> tuple[Array, Array]:
    elements = [array[place] for place in range(len(array))]
    if not elements:
        raise Unsupported("pd.array_to_tensor", "the array is empty")
    sizes = [1 if use_stack else element.shape[axis] for element in elements]
    joined = np.stack(elements, axis) if use_stack else np.concatenate(elements, axis)
    return joined, np.array(sizes, np.int32)
