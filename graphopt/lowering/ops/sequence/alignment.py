"""Sequences against sequences in JAX: dynamic programming by `lax.scan`."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence import alignment as ops
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.activation import below_max, log_sum
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers

# the logarithm of probability 0; finite, so that derivatives are numbers
IMPOSSIBLE = -1e30


@lowers(ops.WarpCtc)
def warpctc(
    logits: Array,
    label: Array,
    logits_length: Array,
    labels_length: Array,
    blank: int,
    norm_by_times: bool,
) -> Array:
    label = label.astype(np.int64)
    steps, length = logits_length.astype(np.int64), labels_length.astype(np.int64)
    alpha = _forward_scores(_clipped_log_softmax(logits), label, steps, length, blank)
    # the last label, or the blank after it; an empty label has only the blank
    end = 2 * length[:, None]
    last = jnp.take_along_axis(alpha, end, 1, mode="fill")
    before = jnp.take_along_axis(alpha, jnp.maximum(end - 1, 0), 1, mode="fill")
    loss = -jnp.logaddexp(last, jnp.where(end > 0, before, IMPOSSIBLE))
    loss = jnp.where((_steps_needed(label, length) > steps)[:, None], 0, loss)
    loss = jnp.where(((steps == 0) & (length == 0))[:, None], np.inf, loss)
    if norm_by_times:
        share = loss / jnp.maximum(steps, 1)[:, None].astype(loss.dtype)
        loss = lax.stop_gradient(loss - share) + share
    return loss.astype(logits.dtype)


@lowers(ops.WarpRnnt)
def warprnnt(
    input: Array,
    label: Array,
    input_lengths: Array,
    label_lengths: Array,
    blank: int,
    fastemit_lambda: float,
) -> Array:
    scores, label = wide(input), label.astype(np.int64)
    length = label_lengths.astype(np.int64)
    steps = input_lengths.astype(np.int64)
    early = (np.arange(scores.shape[1]) < steps[:, None])[..., None]
    waits = jnp.where(early, scores[..., blank], 0)
    # a negative label would count from the end; a label past the end reads NaN
    known = jnp.where(label < 0, scores.shape[3], label)
    index = jnp.where(np.arange(label.shape[1]) < length[:, None], known, blank)
    emits = jnp.take_along_axis(scores[:, :, :-1], index[:, None, :, None], 3, mode="fill")
    emits = jnp.where(early, emits[..., 0], 0)
    # scale the gradient, but keep the value
    emits = emits + fastemit_lambda * (emits - lax.stop_gradient(emits))
    alpha = _transducer_scores(jnp.moveaxis(waits, 1, 0), jnp.moveaxis(emits, 1, 0))
    last = jnp.moveaxis(alpha + jnp.moveaxis(waits, 1, 0), 0, 1)
    end = jnp.take_along_axis(last, jnp.maximum(steps - 1, 0)[:, None, None], 1, mode="clip")
    end = jnp.take_along_axis(end[:, 0], length[:, None], 1, mode="clip")
    return -end[:, 0].astype(input.dtype)


def _transducer_scores(waits: Array, emits: Array) -> Array:
    """Compute the log-probability [time, batch, length + 1] of all paths to each state.

    `waits` has that shape, `emits` one label less; a path to a label comes from the label before at
    the same time, or from the same label at the time before.
    """

    def along_labels(arrived: Array, emitted: Array) -> Array:
        def label(before: Array, one: tuple[Array, Array]) -> tuple[Array, Array]:
            found = jnp.logaddexp(one[0], before + one[1])
            return found, found

        first = arrived[:, 0]
        _, rest = lax.scan(label, first, (arrived[:, 1:].T, emitted.T))
        return jnp.concatenate([first[None], rest]).T

    def time(before: Array, one: tuple[Array, Array]) -> tuple[Array, Array]:
        waited, emitted = one
        found = along_labels(before + waited, emitted)
        return found, found

    start = jnp.full_like(waits[0], IMPOSSIBLE).at[:, 0].set(0)
    first = along_labels(start, emits[0])
    _, rest = lax.scan(time, first, (waits[:-1], emits[1:]))
    return jnp.concatenate([first[None], rest])


def _clipped_log_softmax(logits: Array) -> Array:
    """Compute log-softmax; as in Paddle, no probability is below the smallest normal number.

    The gradient ignores the clipping.
    """
    shifted = below_max(wide(logits), -1)
    scores = shifted - log_sum(shifted, -1)
    least = np.log(np.finfo(scores.dtype).tiny)
    return scores + lax.stop_gradient(jnp.maximum(scores, least) - scores)


def _forward_scores(scores: Array, label: Array, steps: Array, length: Array, blank: int) -> Array:
    """Compute the log-probability of all paths to each state: labels with blanks around each."""
    batch, longest = label.shape
    count, classes = 2 * longest + 1, scores.shape[2]
    states = jnp.full((batch, count), blank, np.int64).at[:, 1::2].set(label)
    inside = np.arange(count) < (2 * length + 1)[:, None]
    # a negative label would count from the end; a label past the end reads NaN
    index = jnp.where(inside, jnp.where(states < 0, classes, states), blank)
    emitted = jnp.take_along_axis(scores, index[None], 2, mode="fill")
    # a label may directly follow a different label
    differs = states != jnp.concatenate([states[:, :2], states[:, :-2]], 1)[:, :count]
    skips = differs & (np.arange(count) % 2 == 1)

    def shift(alpha: Array, by: int) -> Array:
        empty = jnp.full((batch, by), IMPOSSIBLE, alpha.dtype)
        return jnp.concatenate([empty, alpha], 1)[:, :count]

    def step(alpha: Array, now: tuple[Array, Array]) -> tuple[Array, None]:
        found, time = now
        jumped = jnp.where(skips, shift(alpha, 2), IMPOSSIBLE)
        reached = jnp.logaddexp(jnp.logaddexp(alpha, shift(alpha, 1)), jumped)
        return jnp.where((time < steps)[:, None], reached + found, alpha), None

    start = jnp.full((batch, count), IMPOSSIBLE, scores.dtype).at[:, 0].set(0)
    times = jnp.arange(scores.shape[0], dtype=np.int64)
    return lax.scan(step, start, (emitted, times))[0]


def _steps_needed(label: Array, length: Array) -> Array:
    """Count the steps that the labels take, with a blank between equal ones."""
    longest = label.shape[1]
    before = jnp.concatenate([label[:, :1] - 1, label[:, :-1]], 1)[:, :longest]
    repeats = (label == before) & (np.arange(longest) < length[:, None])
    return length + jnp.sum(repeats, 1, dtype=np.int64)


@lowers(ops.CtcAlign)
def ctc_align(
    input: Array, input_length: Array, blank: int, merge_repeated: bool, padding_value: int
) -> tuple[Array, Array]:
    batch, time = input.shape
    kept = (np.arange(time) < input_length.reshape(-1, 1)) & (input != blank)
    if merge_repeated:
        before = jnp.concatenate([jnp.full((batch, 1), -1, input.dtype), input[:, :-1]], 1)
        kept = kept & (input != before[:, :time])
    place = jnp.cumsum(kept, 1, dtype=np.int64) - 1
    # removed elements get an index out of range, where the scatter drops them
    place = jnp.where(kept, place, time)
    out = jnp.full((batch, time), padding_value, input.dtype)
    out = out.at[np.arange(batch)[:, None], place].set(input, mode="drop")
    return out, jnp.sum(kept, 1, keepdims=True, dtype=input_length.dtype)


@lowers(ops.EditDistance)
def edit_distance(
    hyps: Array,
    refs: Array,
    hyps_length: Array | None,
    refs_length: Array | None,
    normalized: bool,
) -> tuple[Array, Array]:
    batch, width = refs.shape
    rows = jnp.full(batch, hyps.shape[1], np.int64) if hyps_length is None else hyps_length
    columns = jnp.full(batch, width, np.int64) if refs_length is None else refs_length
    rows, columns = rows.reshape(-1), columns.reshape(-1)
    at = np.arange(width + 1, dtype=np.int64)

    def step(row: Array, now: tuple[Array, Array]) -> tuple[Array, None]:
        token, number = now
        changed = row[:, :-1] + (refs != token[:, None])
        new = jnp.concatenate([row[:, :1] + 1, jnp.minimum(changed, row[:, 1:] + 1)], 1)
        # an insertion costs 1 for each column to the right
        new = lax.cummin(new - at, axis=1) + at
        return jnp.where((number < rows)[:, None], new, row), None

    row = jnp.broadcast_to(at, (batch, width + 1))
    numbers = jnp.arange(hyps.shape[1], dtype=np.int64)
    if hyps.shape[1]:
        row, _ = lax.scan(step, row, (hyps.T, numbers))
    found = jnp.take_along_axis(row, columns[:, None].astype(np.int64), 1)
    distance = found.astype(np.float32)
    if normalized:
        distance = distance / columns[:, None].astype(np.float32)
    return distance, jnp.full(1, batch, np.int64)


@lowers(ops.GatherTree)
def gather_tree(ids: Array, parents: Array) -> Array:
    def step(beam: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        tokens, origins = now
        return jnp.take_along_axis(origins, beam, 1), jnp.take_along_axis(tokens, beam, 1)

    beams = lax.broadcasted_iota(parents.dtype, ids.shape[1:], 1)
    return lax.scan(step, beams, (ids, parents), reverse=True)[1]


@lowers(ops.SequenceMask)
def sequence_mask(x: Array, max_len: int, out_dtype: DType) -> Array:
    at = jnp.arange(max_len, dtype=x.dtype)
    return (at < x[..., None]).astype(out_dtype.numpy)
