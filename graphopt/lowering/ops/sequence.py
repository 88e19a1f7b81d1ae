"""Concatenated sequences in JAX: each row has the number of its sequence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence import (
    SequenceConv,
    SequenceExpand,
    SequenceGru,
    SequenceLstm,
    SequenceLstmp,
    SequencePad,
    SequencePool,
    SequenceReverse,
    SequenceRowConv,
    SequenceSoftmax,
    SequenceUnpad,
)
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.activation import activate
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


def _applied(name: str, x: Array) -> Array:
    return x if name == "identity" else activate(name, x)


def ends_of(lengths: Array) -> Array:
    """The first row after each sequence."""
    return jnp.cumsum(lengths.astype(np.int64))


def numbers_of(lengths: Array, rows: int) -> Array:
    """The number of the sequence of each row."""
    return jnp.searchsorted(ends_of(lengths), jnp.arange(rows), side="right").astype(np.int32)


def _column(values: Array, rank: int) -> Array:
    """A vector in a shape that broadcasts to rows of this rank."""
    return values.reshape(-1, *(1,) * (rank - 1))


@lowers(SequencePool)
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


def _around(x: Array, lengths: Array, start: int, count: int) -> Array:
    """For each row [d] the `count` rows [count, d] from `start` rows away on.

    0 where its sequence has none.
    """
    rows = x.shape[0]
    numbers = numbers_of(lengths, rows)
    at = jnp.arange(rows)[:, None] + jnp.arange(start, start + count)
    near = jnp.clip(at, 0, max(rows - 1, 0))
    inside = (at == near) & (jnp.take(numbers, near) == numbers[:, None])
    return jnp.where(inside[:, :, None], jnp.take(x, near, 0), jnp.zeros((), x.dtype))


@lowers(SequenceConv)
def sequence_conv(
    x: Array, lengths: Array, filter: Array, context_length: int, context_start: int
) -> Array:
    around = _around(x, lengths, context_start, context_length)
    context = around.reshape(x.shape[0], filter.shape[0])
    return jnp.matmul(wide(context), wide(filter)).astype(x.dtype)


@lowers(SequenceRowConv)
def sequence_row_conv(x: Array, lengths: Array, filter: Array) -> Array:
    around = _around(wide(x), lengths, 0, filter.shape[0])
    return jnp.sum(around * wide(filter), 1).astype(x.dtype)


@lowers(SequenceSoftmax)
def sequence_softmax(x: Array, lengths: Array) -> Array:
    full = wide(x).reshape(-1)
    numbers, count = numbers_of(lengths, x.shape[0]), lengths.shape[0]
    top = jnp.full(count, -jnp.inf, full.dtype).at[numbers].max(full, mode="drop")
    powers = jnp.exp(full - lax.stop_gradient(jnp.take(top, numbers)))
    total = jnp.zeros(count, full.dtype).at[numbers].add(powers, mode="drop")
    return (powers / jnp.take(total, numbers)).reshape(x.shape).astype(x.dtype)


@lowers(SequenceReverse)
def sequence_reverse(x: Array, lengths: Array) -> Array:
    numbers = numbers_of(lengths, x.shape[0])
    ends = jnp.take(ends_of(lengths), numbers)
    starts = ends - jnp.take(lengths.astype(np.int64), numbers)
    return jnp.take(x, starts + ends - 1 - jnp.arange(x.shape[0]), 0)


@lowers(SequenceExpand)
def sequence_expand_as(x: Array, y: Array, lengths: Array) -> Array:
    return jnp.take(x, numbers_of(lengths, y.shape[0]), 0)


@lowers(SequencePad)
def sequence_pad(x: Array, lengths: Array, pad_value: Array, padded_length: int) -> Array:
    sizes = concrete(lengths, "the length of sequence_pad")
    longest = int(sizes.max(initial=0))
    length = padded_length if padded_length > 0 else longest
    if longest > length:
        raise ValueError(f"sequence_pad to {length} rows: a sequence has {longest}")
    starts = np.cumsum(sizes) - sizes
    steps = np.arange(length)
    inside = steps < sizes[:, None]
    at = np.where(inside, starts[:, None] + steps, 0)
    rest = x.shape[1:]
    fill = jnp.broadcast_to(pad_value.reshape(()) if pad_value.size == 1 else pad_value, rest)
    if not x.shape[0]:
        return jnp.broadcast_to(fill, (*at.shape, *rest))
    return jnp.where(inside.reshape(*at.shape, *(1,) * len(rest)), jnp.take(x, at, 0), fill)


@lowers(SequenceUnpad)
def sequence_unpad(x: Array, lengths: Array) -> Array:
    sizes = concrete(lengths, "the number of rows of sequence_unpad").reshape(-1)
    inside = np.arange(x.shape[1]) < sizes[:, None]
    rows, steps = np.nonzero(inside)
    return x[rows, steps]


def _steps(
    x: Array,
    lengths: Array,
    initial: tuple[Array | None, ...],
    sizes: tuple[int, ...],
    is_reverse: bool,
) -> tuple[Array, Array, tuple[Array, ...]]:
    """The first row of each sequence, and the states before it, in the order of the steps."""
    rows = x.shape[0]
    numbers = numbers_of(lengths, rows)
    ends = jnp.take(ends_of(lengths), numbers)
    own = jnp.arange(rows)
    first = own == (ends - 1 if is_reverse else ends - jnp.take(lengths, numbers))
    states = tuple(
        jnp.zeros((rows, size), x.dtype) if state is None else jnp.take(wide(state), numbers, 0)
        for state, size in zip(initial, sizes, strict=True)
    )
    return x, first, states


@lowers(SequenceLstm)
def sequence_lstm(
    x: Array,
    lengths: Array,
    weight: Array,
    bias: Array,
    h0: Array | None,
    c0: Array | None,
    is_reverse: bool,
    use_peepholes: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
) -> tuple[Array, Array]:
    names = gate_activation, cell_activation, candidate_activation
    hidden, cell = _lstm(
        x, lengths, (weight, None), bias, (h0, c0), names, is_reverse, use_peepholes
    )
    # as in Paddle, whose derivative leaves the cells out
    return hidden, lax.stop_gradient(cell)


@lowers(SequenceLstmp)
def sequence_lstmp(
    x: Array,
    lengths: Array,
    weight: Array,
    proj_weight: Array,
    bias: Array,
    h0: Array | None,
    c0: Array | None,
    is_reverse: bool,
    use_peepholes: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
    proj_activation: str,
    cell_clip: float,
    proj_clip: float,
) -> tuple[Array, Array]:
    names = gate_activation, cell_activation, candidate_activation

    def project(hidden: Array) -> Array:
        made = hidden @ wide(proj_weight)
        return _activated_within(proj_clip, proj_activation, made)

    made, cell = _lstm(
        *(x, lengths, (weight, proj_weight), bias, (h0, c0), names, is_reverse, use_peepholes),
        project=project,
        cell_clip=cell_clip,
    )
    return made, lax.stop_gradient(cell)


def _clipped(x: Array, limit: float) -> Array:
    """x within the limit; clipped elements pass no gradient on."""
    if limit <= 0:
        return x
    return jnp.where(jnp.abs(x) < limit, x, lax.stop_gradient(jnp.clip(x, -limit, limit)))


def _activated_within(limit: float, name: str, x: Array) -> Array:
    """The activation of x, cut to within a limit above 0.

    As in Paddle the derivative is that of the activation where its result is the cut one, and the
    cut itself passes gradients on.
    """
    out = _applied(name, x)
    if limit <= 0:
        return out
    cut = lax.stop_gradient(jnp.clip(out, -limit, limit))
    slopes = {"tanh": 1 - cut * cut, "sigmoid": cut * (1 - cut), "relu": (cut > 0) * 1.0}
    slope = slopes.get(name, jnp.ones_like(cut)).astype(cut.dtype)
    return cut + slope * (x - lax.stop_gradient(x))


def _lstm(
    x: Array,
    lengths: Array,
    weights: tuple[Array, Array | None],
    bias: Array,
    initial: tuple[Array | None, Array | None],
    activations: tuple[str, str, str],
    is_reverse: bool,
    use_peepholes: bool,
    project: Callable[[Array], Array] = lambda hidden: hidden,
    cell_clip: float = 0.0,
) -> tuple[Array, Array]:
    """The hidden states, projected, and the cells of every row."""
    matrix, biases = wide(weights[0]), wide(bias).reshape(-1)
    size = matrix.shape[1] // 4
    of_gate, of_cell, of_candidate = activations
    checks = (
        biases[4 * size :].reshape(3, size) if use_peepholes else np.zeros((3, 1), matrix.dtype)
    )
    gates = wide(x) + biases[: 4 * size]

    def step(
        before: tuple[Array, Array], row: tuple[Array, Array, tuple[Array, ...]]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        gate, first, (start_h, start_c) = row
        h, c = jnp.where(first, start_h, before[0]), jnp.where(first, start_c, before[1])
        candidate, into, keep, out = jnp.split(gate + h @ matrix, 4)
        into = _applied(of_gate, into + c * checks[0])
        keep = _applied(of_gate, keep + c * checks[1])
        cell = _clipped(_applied(of_candidate, candidate) * into + c * keep, cell_clip)
        out = _applied(of_gate, out + cell * checks[2])
        hidden = project(out * _applied(of_cell, cell))
        return (hidden, cell), (hidden, cell)

    sizes = matrix.shape[0], size
    zeros = tuple(jnp.zeros(n, gates.dtype) for n in sizes)
    rows = _steps(gates, lengths, initial, sizes, is_reverse)
    _, (hidden, cell) = lax.scan(step, (zeros[0], zeros[1]), rows, reverse=is_reverse)
    return hidden.astype(x.dtype), cell.astype(x.dtype)


@lowers(SequenceGru)
def sequence_gru(
    x: Array,
    lengths: Array,
    weight: Array,
    bias: Array | None,
    h0: Array | None,
    is_reverse: bool,
    gate_activation: str,
    activation: str,
    origin_mode: bool,
) -> Array:
    size = weight.shape[0]
    # stored one after the other: the weight of both gates, then that of the candidate
    flat = wide(weight).reshape(-1)
    of_gates = flat[: 2 * size * size].reshape(size, 2 * size)
    of_candidate = flat[2 * size * size :].reshape(size, size)
    gates = wide(x) if bias is None else wide(x) + wide(bias).reshape(-1)

    def step(before: Array, row: tuple[Array, Array, tuple[Array, ...]]) -> tuple[Array, Array]:
        gate, first, (start,) = row
        h = jnp.where(first, start, before)
        both = _applied(gate_activation, gate[: 2 * size] + h @ of_gates)
        update, reset = both[:size], both[size:]
        candidate = _applied(activation, gate[2 * size :] + (reset * h) @ of_candidate)
        share = 1 - update if origin_mode else update
        hidden = (1 - share) * h + share * candidate
        return hidden, hidden

    rows = _steps(gates, lengths, (h0,), (size,), is_reverse)
    hidden = lax.scan(step, jnp.zeros(size, gates.dtype), rows, reverse=is_reverse)[1]
    return hidden.astype(x.dtype)
