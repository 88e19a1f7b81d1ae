"""Sequences joined, cut, repeated and reordered: which row comes from which, in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import rows as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def rows_of(lengths: Array) -> list[list[int]]:
    """The numbers of the rows of each sequence."""
    found: list[list[int]] = []
    at = 0
    for size in np.reshape(lengths, -1).tolist():
        found.append(list(range(at, at + size)))
        at += size
    return found


def _taken(x: Array, rows: list[list[int]]) -> Array:
    return np.take(x, np.array([row for part in rows for row in part], np.int64), 0)


@rule(ops.SequenceConcat)
def sequence_concat(xs: tuple[Array, ...], lengths: tuple[Array, ...]) -> Array:
    starts = np.cumsum([0, *(x.shape[0] for x in xs)]).tolist()
    parts = [
        [[row + start for row in part] for part in rows_of(own)]
        for start, own in zip(starts, lengths, strict=False)
    ]
    order = [rows for each in zip(*parts, strict=True) for rows in each]
    return _taken(np.concatenate(xs), order)


@rule(ops.SequenceScatter)
def sequence_scatter(x: Array, index: Array, updates: Array, lengths: Array) -> Array:
    columns, added = np.reshape(index, -1), np.reshape(updates, -1)
    out = x
    for number, rows in enumerate(rows_of(lengths)):
        for row in rows:
            place = np.zeros(x.shape, x.dtype)
            place[number, columns[row]] = 1.0
            out = out + place * added[row]
    return out


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
    return _taken(x, [rows[number] for number in order.tolist()])
