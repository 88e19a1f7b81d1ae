"""Sequences concatenated, sliced, repeated and reordered: row by row, in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import rows as ops
from graphopt.reference.derivatives import place
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array

MOST_ROWS = 10_000_000


def rows_of(lengths: Array) -> list[list[int]]:
    """List the row numbers of each sequence; ValueError for more than fit into memory."""
    found: list[list[int]] = []
    at = 0
    for size in np.reshape(lengths, -1).tolist():
        if size > MOST_ROWS:
            raise ValueError(f"a sequence of {size} rows is too long for the reference")
        found.append(list(range(at, at + size)))
        at += size
    return found


def _take_rows(x: Array, rows: list[list[int]]) -> Array:
    return np.take(x, np.array([row for part in rows for row in part], np.int64), 0)


def _sizes(parts: list[list[int]], lengths: Array) -> Array:
    return np.array([len(part) for part in parts], lengths.dtype)


@rule(ops.SequenceConcat)
def sequence_concat(xs: tuple[Array, ...], lengths: tuple[Array, ...]) -> Array:
    starts = np.cumsum([0, *(x.shape[0] for x in xs)]).tolist()
    parts = [
        [[row + start for row in part] for part in rows_of(own)]
        for start, own in zip(starts, lengths, strict=False)
    ]
    order = [rows for each in zip(*parts, strict=True) for rows in each]
    return _take_rows(np.concatenate(xs), order)


@rule(ops.SequenceRepeat)
def sequence_expand(x: Array, lengths: Array, counts: Array) -> tuple[Array, Array]:
    rows, times = rows_of(lengths), counts.tolist()
    if len(rows) != len(times):
        raise Unsupported("pd.sequence_expand", f"{len(rows)} sequences with {len(times)} counts")
    repeated = [part for part, count in zip(rows, times, strict=True) for _ in range(count)]
    return _take_rows(x, repeated), _sizes(repeated, lengths)


@rule(ops.SequenceReshape)
def sequence_reshape(x: Array, lengths: Array, new_dim: int) -> tuple[Array, Array]:
    numbers = lengths * x.shape[1]
    if np.any(numbers % new_dim):
        raise Unsupported("pd.sequence_reshape", f"sequences of {numbers.tolist()} numbers")
    return np.reshape(x, (-1, new_dim)), numbers // new_dim


@rule(ops.SequenceSlice)
def sequence_slice(x: Array, lengths: Array, offset: Array, length: Array) -> Array:
    begin, wanted = np.reshape(offset, -1).tolist(), np.reshape(length, -1).tolist()
    rows = rows_of(lengths)
    if not len(rows) == len(begin) == len(wanted):
        raise Unsupported("pd.sequence_slice", f"{len(rows)} sequences, {len(begin)} offsets")
    parts = [part[b : b + n] for part, b, n in zip(rows, begin, wanted, strict=True)]
    if min(begin, default=0) < 0 or [len(part) for part in parts] != wanted:
        raise Unsupported("pd.sequence_slice", "a part is not within its sequence")
    return _take_rows(x, parts)


@rule(ops.SequenceErase)
def sequence_erase(x: Array, lengths: Array, tokens: tuple[int, ...]) -> tuple[Array, Array]:
    flat = np.reshape(x, -1)
    kept = [[row for row in part if flat[row] not in tokens] for part in rows_of(lengths)]
    return _take_rows(x, kept), _sizes(kept, lengths)


@rule(ops.SequenceAlign)
def sequence_align(
    x: Array, lengths: Array, blank: int, merge_repeated: bool
) -> tuple[Array, Array]:
    flat = np.reshape(x, -1).tolist()
    kept: list[list[int]] = []
    for part in rows_of(lengths):
        before = [None, *(flat[row] for row in part[:-1])]
        pairs = zip(part, before, strict=False)
        own = [row for row, old in pairs if not (merge_repeated and flat[row] == old)]
        kept.append([row for row in own if flat[row] != blank])
    found = _take_rows(x, kept) if any(kept) else np.full((1, *x.shape[1:]), -1, x.dtype)
    return found, _sizes(kept, lengths)


@rule(ops.SequenceScatter)
def sequence_scatter(x: Array, index: Array, updates: Array, lengths: Array) -> Array:
    columns, added = np.reshape(index, -1), np.reshape(updates, -1)
    rows = rows_of(lengths)
    numbers = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    order = np.array([row for own in rows for row in own], np.int64)
    return x + place(added[order], (numbers, columns[order]), x.shape, -0.0)


@rule(ops.SequenceEnumerate)
def sequence_enumerate(x: Array, lengths: Array, win_size: int, pad_value: int) -> Array:
    flat = np.reshape(x, -1).tolist()
    out: list[list[Any]] = []
    for rows in rows_of(lengths):
        own = [flat[row] for row in rows] + [pad_value] * win_size
        out += [own[at : at + win_size] for at in range(len(rows))]
    return np.array(out, x.dtype).reshape(-1, win_size)


@rule(ops.SequenceReorder)
def sequence_reorder(x: Array, lengths: Array, order: Array) -> Array:
    rows = rows_of(lengths)
    return _take_rows(x, [rows[number] for number in order.tolist()])
