"""Sequences of tokens against each other, all rows at once."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.sequence import alignment as ops
from graphopt.ir.dialect.ops.sequence.rows import SequenceEditDistance
from graphopt.reference.derivatives import hold
from graphopt.reference.ops.sequence.layers import table_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.WarpRnnt)
def warprnnt(
    input: Array,
    label: Array,
    input_lengths: Array,
    label_lengths: Array,
    blank: int,
    fastemit_lambda: float,
) -> Array:
    batch, most, states, classes = input.shape
    losses: list[Array] = []
    for row in range(batch):
        steps = min(int(input_lengths[row]), most)
        length = min(int(label_lengths[row]), states - 1)
        scores, line = input[row], [np.zeros(())] * (length + 1)
        for step in range(steps):
            arrived, line = line, []
            for state in range(length + 1):
                paths = [arrived[state] + scores[step - 1, state, blank]] if step else []
                if state:
                    number = int(label[row, state - 1])
                    known = 0 <= number < classes
                    emitted = scores[step, state - 1, number] if known else np.asarray(np.nan)
                    # scale the gradient of a label, but keep the loss
                    emitted = emitted + fastemit_lambda * (emitted - hold(emitted))
                    paths.append(line[-1] + emitted)
                start = paths[0] if paths else np.zeros(())
                line.append(np.logaddexp(start, paths[1]) if len(paths) > 1 else start)
        losses.append(-line[length] - (scores[steps - 1, length, blank] if steps else 0.0))
    return np.stack(losses) if losses else np.zeros(0, input.dtype)


@rule(ops.CtcAlign)
def ctc_align(
    input: Array, input_length: Array, blank: int, merge_repeated: bool, padding_value: int
) -> tuple[Array, Array]:
    time = np.arange(input.shape[1])
    kept = (input != blank) & (time < np.reshape(input_length, (-1, 1)))
    if merge_repeated:
        kept[:, 1:] &= input[:, 1:] != input[:, :-1]
    count = np.sum(kept, axis=1, keepdims=True)
    in_front = np.take_along_axis(input, np.argsort(~kept, axis=1, kind="stable"), 1)
    return np.where(time < count, in_front, padding_value), count


def _distances(hyps: Array, refs: Array, rows: Array, columns: Array, normalized: bool) -> Array:
    """Compute Levenshtein distances of the first tokens of each row, row by row of the table."""
    steps = np.arange(refs.shape[1] + 1)
    line = np.broadcast_to(steps, (len(hyps), len(steps)))
    table = [line]
    for number in range(hyps.shape[1]):
        changed = line[:, :-1] + (hyps[:, number : number + 1] != refs)
        best = np.minimum(line[:, 1:], changed - 1) + 1  # without insertions
        line = np.concatenate([np.full_like(line[:, :1], number + 1), best], 1)
        line = np.minimum.accumulate(line - steps, 1) + steps
        table.append(line)
    found = np.stack(table)[rows, np.arange(len(hyps)), columns].astype(np.float32)
    return np.reshape(found / columns.astype(np.float32) if normalized else found, (-1, 1))


@rule(ops.EditDistance)
def edit_distance(
    hyps: Array,
    refs: Array,
    hyps_length: Array | None,
    refs_length: Array | None,
    normalized: bool,
) -> tuple[Array, Array]:
    pairs = (hyps, hyps_length), (refs, refs_length)
    rows, columns = (
        np.full(len(x), x.shape[1]) if n is None else np.reshape(n, -1) for x, n in pairs
    )
    return _distances(hyps, refs, rows, columns, normalized), np.array([len(hyps)])


@rule(SequenceEditDistance)
def sequence_edit_distance(
    hyps: Array, refs: Array, hyps_lengths: Array, refs_lengths: Array, normalized: bool
) -> tuple[Array, Array]:
    pairs = (hyps, hyps_lengths), (refs, refs_lengths)
    a, b = (np.take(np.reshape(x, -1), table_of(lengths)[0]) for x, lengths in pairs)
    out = _distances(a, b, hyps_lengths, refs_lengths, normalized)
    return out, np.array([len(hyps_lengths)])


@rule(ops.GatherTree)
def gather_tree(ids: Array, parents: Array) -> Array:
    beam = np.broadcast_to(np.arange(ids.shape[2]), ids.shape[1:])
    steps: list[Array] = []
    for tokens, above in zip(ids[::-1], parents[::-1], strict=True):
        steps.append(np.take_along_axis(tokens, beam, 1))
        beam = np.take_along_axis(above, beam, 1)
    return np.stack(steps[::-1]) if steps else ids


@rule(ops.SequenceMask)
def sequence_mask(x: Array, max_len: int) -> Array:
    return np.arange(max_len) < x[..., None]
