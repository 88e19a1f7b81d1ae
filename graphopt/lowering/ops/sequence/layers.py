"""Concatenated sequences in JAX: each row has the index of its sequence."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence import layers as ops
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


def ends_of(lengths: Array) -> Array:
    """Compute the end of each sequence: the first row after it."""
    return jnp.cumsum(lengths.astype(np.int64))


def numbers_of(lengths: Array, rows: int) -> Array:
    """Find the sequence of each row."""
    return jnp.searchsorted(ends_of(lengths), jnp.arange(rows), side="right").astype(np.int32)


def _column(values: Array, rank: int) -> Array:
    """Reshape a vector to broadcast to rows of this rank."""
    return values.reshape(-1, *(1,) * (rank - 1))


@lowers(ops.SequencePool)
def sequence_pool(x: Array, lengths: Array, pooltype: str, pad_value: float) -> Array:
    count, rows, rank = lengths.shape[0], x.shape[0], x.ndim
    filled = _column(lengths > 0, rank)
    full = wide(x)
    if rows == 0:
        out = jnp.zeros((count, *x.shape[1:]), full.dtype)
    elif pooltype in ("FIRST", "LAST"):
        ends = ends_of(lengths)
        at = ends - 1 if pooltype == "LAST" else ends - lengths
        out = jnp.take(full, jnp.clip(at, 0, rows - 1), 0)
    else:
        numbers = numbers_of(lengths, rows)
        if pooltype == "MAX":
            low = jnp.full((count, *x.shape[1:]), -jnp.inf, full.dtype)
            out = low.at[numbers].max(full, mode="drop")
        else:
            zero = jnp.zeros((count, *x.shape[1:]), full.dtype)
            out = zero.at[numbers].add(full, mode="drop")
            size = _column(jnp.maximum(lengths, 1).astype(full.dtype), rank)
            over = {"SUM": jnp.ones_like(size), "AVERAGE": size, "SQRT": jnp.sqrt(size)}
            out = out / over[pooltype]
    return jnp.where(filled, out, jnp.asarray(pad_value, full.dtype)).astype(x.dtype)


def _around(
    x: Array, lengths: Array, start: int, count: int, padding: Array | None = None
) -> Array:
    """Gather for each row [d] the `count` rows [count, d] at offsets from `start` on.

    Rows outside the sequence are 0, or rows of the padding.
    """
    rows = x.shape[0]
    if not rows:
        return jnp.zeros((0, count, x.shape[1]), x.dtype)
    numbers = numbers_of(lengths, rows)
    at = jnp.arange(rows)[:, None] + jnp.arange(start, start + count)
    near = jnp.clip(at, 0, max(rows - 1, 0))
    inside = (at == near) & (jnp.take(numbers, near) == numbers[:, None])
    outside = jnp.zeros((), x.dtype)
    if padding is not None:
        # the padding row for a position before a sequence's first row, or after its last
        size = jnp.take(lengths.astype(np.int64), numbers)[:, None]
        place = at - (jnp.take(ends_of(lengths), numbers)[:, None] - size)
        outside = jnp.take(
            padding, max(0, -start) + jnp.where(place < 0, place, place - size), 0, mode="clip"
        )
    return jnp.where(inside[:, :, None], jnp.take(x, near, 0), outside)


@lowers(ops.SequenceConv)
def sequence_conv(
    x: Array,
    lengths: Array,
    filter: Array,
    padding: Array | None,
    context_length: int,
    context_start: int,
) -> Array:
    around = _around(x, lengths, context_start, context_length, padding)
    context = around.reshape(x.shape[0], filter.shape[0])
    return jnp.matmul(wide(context), wide(filter)).astype(x.dtype)


@lowers(ops.SequenceRowConv)
def sequence_row_conv(x: Array, lengths: Array, filter: Array) -> Array:
    around = _around(wide(x), lengths, 0, filter.shape[0])
    return jnp.sum(around * wide(filter), 1).astype(x.dtype)


@lowers(ops.SequenceSoftmax)
def sequence_softmax(x: Array, lengths: Array) -> Array:
    full = wide(x).reshape(-1)
    numbers, count = numbers_of(lengths, x.shape[0]), lengths.shape[0]
    top = jnp.full(count, -jnp.inf, full.dtype).at[numbers].max(full, mode="drop")
    powers = jnp.exp(full - lax.stop_gradient(jnp.take(top, numbers)))
    total = jnp.zeros(count, full.dtype).at[numbers].add(powers, mode="drop")
    return (powers / jnp.take(total, numbers)).reshape(x.shape).astype(x.dtype)


@lowers(ops.SequenceReverse)
def sequence_reverse(x: Array, lengths: Array) -> Array:
    numbers = numbers_of(lengths, x.shape[0])
    ends = jnp.take(ends_of(lengths), numbers)
    starts = ends - jnp.take(lengths.astype(np.int64), numbers)
    return jnp.take(x, starts + ends - 1 - jnp.arange(x.shape[0]), 0)


@lowers(ops.SequenceExpand)
def sequence_expand_as(x: Array, y: Array, lengths: Array) -> Array:
    return jnp.take(x, numbers_of(lengths, y.shape[0]), 0)


@lowers(ops.SequencePad)
def sequence_pad(
    x: Array, lengths: Array, pad_value: Array, steps: Array | None, padded_length: int
) -> Array:
    if steps is None:
        sizes = concrete(lengths, "the length of sequence_pad")
        longest = int(sizes.max(initial=0))
        length = padded_length if padded_length > 0 else longest
        if longest > length:
            raise ValueError(f"sequence_pad to {length} rows: a sequence has {longest}")
    else:
        sizes, length = lengths.astype(np.int64), steps.shape[0]
    starts = sizes.cumsum() - sizes
    inside = np.arange(length) < sizes[:, None]
    numpy = np if steps is None else jnp
    at = numpy.where(inside, starts[:, None] + np.arange(length), 0)
    rest = x.shape[1:]
    fill = jnp.broadcast_to(pad_value.reshape(()) if pad_value.size == 1 else pad_value, rest)
    if not x.shape[0]:
        return jnp.broadcast_to(fill, (*at.shape, *rest))
    return jnp.where(inside.reshape(*at.shape, *(1,) * len(rest)), jnp.take(x, at, 0), fill)


@lowers(ops.SequenceUnpad)
def sequence_unpad(x: Array, lengths: Array, rows: Array | None) -> Array:
    if rows is not None:
        numbers, each = numbers_of(lengths, rows.shape[0]), np.arange(rows.shape[0])
        first = jnp.take(ends_of(lengths) - lengths, numbers, mode="clip")
        last = jnp.asarray(max(x.shape[1] - 1, 0))
        return jnp.asarray(x).at[numbers, jnp.minimum(each - first, last)].get(mode="clip")
    sizes = concrete(lengths, "the number of rows of sequence_unpad").reshape(-1)
    inside = np.arange(x.shape[1]) < sizes[:, None]
    return x[np.nonzero(inside)]
