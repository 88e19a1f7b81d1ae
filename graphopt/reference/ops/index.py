"""Indexing of elements. Indices out of range, for which Paddle raises, read nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import index as ops
from graphopt.reference.derivatives import hold
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array


def take_slices(x: Array, numbers: Array, axis: int, op: str) -> Array:
    """Take slices of x by number, counted from the end below zero; nan for a missing slice."""
    size = x.shape[axis]
    inside = (numbers >= -size) & (numbers < size)
    if not np.all(inside) and x.dtype.kind not in "fc":
        raise Unsupported(op, "of integers at a position that is out of range")
    if not size:
        return np.full((*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :]), np.nan)
    found = np.take(x, np.where(inside, numbers, 0), axis)
    if np.all(inside):
        return found
    shape = [1] * axis + list(numbers.shape) + [1] * (x.ndim - axis - 1)
    return np.where(np.reshape(inside, shape), found, np.nan)


@rule(ops.Embedding)
def embedding(x: Array, weight: Array, padding_idx: int) -> Array:
    rows = take_slices(weight, np.where(x < 0, weight.shape[0], x), 0, "pd.embedding")
    return rows if padding_idx == -1 else np.where((x == padding_idx)[..., None], 0.0, rows)


@rule(ops.OneHot)
def one_hot(x: Array, depth: int) -> Array:
    return (x[..., None] == np.arange(depth)) * 1.0


@rule(ops.Gather)
def gather(x: Array, index: Array, axis: int) -> Array:
    return take_slices(x, np.reshape(index, index.shape[:1]), axis % x.ndim, "pd.gather")


@rule(ops.FillRows)
def fill_rows(x: Array, mask: Array, keep: bool) -> Array:
    kept = np.reshape(mask, -1) == keep
    first: Any = int(np.argmax(kept)) if kept.size else 0
    return np.take(x, np.where(kept, np.arange(kept.size), first), 0) if kept.size else x


@rule(ops.WriteRows)
def write_rows(x: Array, rows: Array, at: Array, axis: int) -> Array:
    along, first = axis % x.ndim, int(np.reshape(at, ()))
    places = (slice(None),) * along + (slice(first, first + rows.shape[along]),)
    out = np.array(x)
    out[places] = rows
    return out


@rule(ops.Multiplex)
def multiplex(inputs: tuple[Array, ...], index: Array) -> Array:
    numbers = np.reshape(index, (-1,))
    all_ = np.stack(inputs)
    inside = (numbers >= -len(inputs)) & (numbers < len(inputs))
    found = all_[np.where(inside, numbers, 0), np.arange(len(numbers))]
    if np.all(inside):
        return found
    return np.where(np.reshape(inside, (-1,) + (1,) * (found.ndim - 1)), found, np.nan)


@rule(ops.ShardIndex)
def shard_index(
    input: Array, index_num: int, nshards: int, shard_id: int, ignore_value: int
) -> Array:
    size = -(-index_num // nshards)
    return np.where(input // size == shard_id, input % size, ignore_value)


@rule(ops.DequantizeRows)
def dequantize_rows(x: Array, dtypes: Any) -> Array:
    if dtypes[0] != "float32":
        raise Unsupported("pd.dequantize_rows", "of bytes in other elements than float32")
    given = np.asarray(x, np.float32)
    stored = np.frombuffer(np.ascontiguousarray(given[..., 2:]).tobytes(), np.uint8)
    scale = (given[..., 1:2] - given[..., :1]) / 256
    return hold(given[..., :1] + stored.reshape(*given.shape[:-1], -1) * scale)
