"""Layers over sequences in rows: they are padded to a table, computed, and put back in rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import layers as ops
from graphopt.reference.derivatives import place
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array, value_of


def table_of(lengths: Array) -> tuple[Array, Array]:
    """Build the table of each sequence's rows by step, and a mask of the steps that it has."""
    sizes = np.reshape(lengths, (-1, 1)).astype(np.int64)
    steps = np.arange(np.max(sizes, initial=0))
    live = steps < sizes
    return np.where(live, np.cumsum(sizes, 0) - sizes + steps, 0), live


def _wide(mask: Array, x: Array) -> Array:
    """Reshape a mask of rows to broadcast to rows of the rank of x."""
    return np.reshape(mask, mask.shape + (1,) * (x.ndim - 1))


@rule(ops.SequencePool)
def sequence_pool(x: Array, lengths: Array, pooltype: str, pad_value: float) -> Array:
    rows, live = table_of(lengths)
    sizes = np.reshape(lengths, (-1, *(1,) * (x.ndim - 1)))
    if not rows.size:
        return np.full((len(lengths), *x.shape[1:]), pad_value, x.dtype)
    if pooltype in ("FIRST", "LAST"):
        last = np.maximum(np.reshape(lengths, -1) - 1, 0) if pooltype == "LAST" else 0
        out = np.take(x, rows[np.arange(len(lengths)), last], 0)
    else:
        padded, mask = np.take(x, rows, 0), _wide(live, x)
        if pooltype == "MAX":
            out = np.max(np.where(mask, padded, -np.inf), axis=1)
        else:
            out = np.sum(np.where(mask, padded, 0.0), axis=1)
            count = np.maximum(sizes, 1).astype(x.dtype)
            by: dict[str, Any] = {"SUM": 1.0, "AVERAGE": count, "SQRT": np.sqrt(count)}
            out = out / by[pooltype]
    return np.where(sizes > 0, out, pad_value)


@rule(ops.SequenceConv)
def sequence_conv(
    x: Array,
    lengths: Array,
    filter: Array,
    padding: Array | None,
    context_length: int,
    context_start: int,
) -> Array:
    before, after = max(0, -context_start), max(0, context_start + context_length - 1)
    count, width = x.shape
    if padding is None:
        padding = np.zeros((before + after, width), x.dtype)
    rows, live = table_of(lengths)
    own = rows[live][:, None]
    first, size = (np.repeat(part, np.reshape(lengths, -1))[:, None] for part in _ends(lengths))
    at = own - first + context_start + np.arange(context_length)
    past = count + before + at - size
    places = np.where(at < 0, count + before + at, np.where(at < size, first + at, past))
    context = np.take(np.concatenate([x, padding]), places, 0)
    found = np.matmul(np.reshape(context, (len(own), context_length * width)), filter)
    return place(found, own[:, 0], (count, filter.shape[1]))


def _ends(lengths: Array) -> tuple[Array, Array]:
    """Compute the first row and the number of rows of each sequence."""
    sizes = np.reshape(lengths, -1)
    return np.cumsum(sizes) - sizes, sizes


@rule(ops.SequenceRowConv)
def sequence_row_conv(x: Array, lengths: Array, filter: Array) -> Array:
    rows, live = table_of(lengths)
    padded = np.where(_wide(live, x), np.take(x, rows, 0), 0.0)
    padded = np.pad(padded, [(0, 0), (0, filter.shape[0] - 1), (0, 0)])
    steps = rows.shape[1]
    total: Array = padded[:, :steps] * filter[0]
    for ahead in range(1, filter.shape[0]):
        total = total + padded[:, ahead : ahead + steps] * filter[ahead]
    return place(total[live], rows[live], x.shape)


@rule(ops.SequenceSoftmax)
def sequence_softmax(x: Array, lengths: Array) -> Array:
    rows, live = table_of(lengths)
    numbers = np.where(live, np.take(np.reshape(x, (-1,)), rows, 0), -np.inf)
    top = np.max(value_of(numbers), axis=1, keepdims=True, initial=-np.inf)
    powers = np.exp(numbers - np.where(top == -np.inf, 0.0, top))
    shares = powers / np.sum(powers, axis=1, keepdims=True)
    return np.reshape(place(shares[live], rows[live], (x.shape[0],)), x.shape)


@rule(ops.SequenceReverse)
def sequence_reverse(x: Array, lengths: Array) -> Array:
    order = np.arange(x.shape[0])
    for first, size in zip(*map(np.ndarray.tolist, _ends(lengths)), strict=True):
        order[first : first + size] = order[first : first + size][::-1]
    return np.take(x, order, 0)


@rule(ops.SequenceExpand)
def sequence_expand(x: Array, y: Array, lengths: Array) -> Array:
    sequence = np.repeat(np.arange(x.shape[0]), np.reshape(lengths, -1))
    found = np.take(x, sequence, 0)
    if len(sequence) == y.shape[0]:
        return found
    return place(found, np.arange(len(sequence)), (y.shape[0], *x.shape[1:]))


@rule(ops.SequencePad)
def sequence_pad(
    x: Array, lengths: Array, pad_value: Array, steps: Array | None, padded_length: int
) -> Array:
    longest = int(np.max(lengths, initial=0))
    count = padded_length if padded_length > 0 else longest
    if steps is not None:
        count = len(steps)
    elif longest > count:
        raise Unsupported("pd.sequence_pad", f"a sequence has {longest} of {count} rows")
    sizes = np.reshape(lengths, (-1, 1)).astype(np.int64)
    live = np.arange(count) < sizes
    rows = np.cumsum(sizes, 0) - sizes + np.arange(count)
    shape = (*live.shape, *x.shape[1:])
    fill = np.broadcast_to(np.reshape(pad_value, ()) if pad_value.size == 1 else pad_value, shape)
    if not x.shape[0]:
        return fill
    mask = np.reshape(live, live.shape + (1,) * (x.ndim - 1))
    return np.where(mask, np.take(x, np.where(live, rows, 0), 0), fill)


@rule(ops.SequenceUnpad)
def sequence_unpad(x: Array, lengths: Array, rows: Array | None) -> Array:
    last = max(x.shape[1] - 1, 0)
    most = x.shape[1] if rows is None else len(rows)  # lengths may have any value
    sizes = [min(size, most) for size in np.reshape(lengths, -1).tolist()]
    at = [(n, min(step, last)) for n, size in enumerate(sizes) for step in range(size)]
    if rows is not None:
        at = (at + [(len(sizes) - 1, last)] * len(rows))[: len(rows)]
    sequences, steps = np.array(at, np.int64).reshape(-1, 2).T
    flat = np.reshape(x, (-1, *x.shape[2:]))
    return np.take(flat, sequences * x.shape[1] + steps, 0)
