"""Padded axes in ops on concatenated sequences, whose lengths are fed with the rows.

Padding adds sequences: the added sequences share all added rows, one row or more each (see
`graphopt.runtime.runners.bucketed`). So no sequence that counts contains a padded row, and the
others hold ordinary numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.sequence.layers import (
    SequenceConv,
    SequenceExpand,
    SequencePad,
    SequencePool,
    SequenceReverse,
    SequenceSoftmax,
    SequenceUnpad,
)
from graphopt.ir.dialect.ops.sequence.recurrent import SequenceGru, SequenceLstm
from graphopt.ir.dialect.ops.sequence.tagging import CrfDecoding, LinearChainCrf
from graphopt.ir.dialect.ops.shape import Assign, Reshape
from graphopt.passes.engine.rewrite import insert
from graphopt.passes.padding.dims import Axes, CannotPad, Dim
from graphopt.passes.padding.masked import LONGEST
from graphopt.passes.padding.recurrent import check_rows, check_weights
from graphopt.passes.padding.rules import Carried, Padded, RealRows, carry, check_free


def _rows_and_sequences(rows: Axes, lengths: Axes) -> tuple[Dim | None, Dim | None]:
    """Return the dimensions of rows and of sequences; both are padded, or neither is."""
    pair = rows[0], lengths[0]
    if any(dim is not None and len(dim) != 1 for dim in pair):
        raise CannotPad("joined-rows", "the rows are not the rows of a feed with lengths")
    if pair[0] is not None and pair[0] == pair[1]:
        raise CannotPad("rows-and-lengths", "the rows and the lengths have the same padded axis")
    if (pair[0] is None) != (pair[1] is None):
        which = "lengths but not the rows" if pair[0] is None else "rows but not the lengths"
        raise CannotPad(
            "rows-and-lengths", f"the {which} are padded; give Buckets sizes of 'rows' and 'batch'"
        )
    return pair


@carry.register(SequencePool)
def _(op: SequencePool, padded: Padded) -> Carried:
    x, lengths = (padded.of(value) for value in op.operands)
    _, sequences = _rows_and_sequences(x, lengths)
    return Carried(((sequences, *x[1:]),))


@carry.register(SequenceSoftmax)
@carry.register(SequenceReverse)
def _(op: PdOp, padded: Padded) -> Carried:
    x, lengths = (padded.of(value) for value in op.operands)
    _rows_and_sequences(x, lengths)
    if isinstance(op, SequenceSoftmax):
        check_free(x, range(1, len(x)), "the width of the rows")
    return Carried((x,))


@carry.register(SequenceConv)
def _(op: SequenceConv, padded: Padded) -> Carried:
    x, lengths = (padded.of(value) for value in op.operands[:2])
    rows, _ = _rows_and_sequences(x, lengths)
    check_free(x, (1,), "the width of the rows")
    check_weights(padded, op.operands[2:])
    return Carried(((rows, None),))


@carry.register(SequenceExpand)
def _(op: SequenceExpand, padded: Padded) -> Carried:
    x, y, lengths = (padded.of(value) for value in op.operands)
    rows, sequences = _rows_and_sequences(y, lengths)
    if x[0] != sequences:
        raise CannotPad("different-padding", "the operand does not have one row for each sequence")
    return Carried(((rows, *x[1:]),))


@carry.register(SequencePad)
def _(op: SequencePad, padded: Padded) -> Carried:
    """Pad to the steps of the longest sequence of the feed, and of its bucket."""
    x, lengths = padded.of(op.x), padded.of(op.lengths)
    rows, sequences = _rows_and_sequences(x, lengths)
    if op.attr("padded_length") > 0:
        raise CannotPad("fixed-length", "the op pads to a fixed length, which it checks")
    time = _steps(op.lengths, rows, padded)
    check_free(x, range(1, len(x)), "the width of the rows")
    check_weights(padded, [op.pad_value])

    def write(op: SequencePad, real: RealRows) -> Sequence[SSAValue]:
        made = SequencePad.make(op.x, op.lengths, op.pad_value, real.mask(time, 1, 0))
        return (insert(made, op),)

    return Carried(((sequences, time, *x[1:]),), write=write)


@carry.register(SequenceUnpad)
def _(op: SequenceUnpad, padded: Padded) -> Carried:
    """Restore the rows of the feed; a padded sequence may have more rows than steps."""
    x, lengths = padded.of(op.x), padded.of(op.lengths)
    rows = _fed_rows(op.lengths, padded)
    if rows is None or x[0] != lengths[0] or x[1] != _steps(op.lengths, rows, padded):
        raise CannotPad("different-padding", "the sequences are not the padded sequences of a feed")

    def write(op: SequenceUnpad, real: RealRows) -> Sequence[SSAValue]:
        return (insert(SequenceUnpad.make(op.x, op.lengths, real.mask(rows, 1, 0)), op),)

    return Carried(((rows, *x[2:]),), write=write)


def _steps(lengths: SSAValue, rows: Dim | None, padded: Padded) -> Dim:
    """Return the dimension of the steps of sequences whose lengths were fed with their rows."""
    if rows is None or _fed_rows(lengths, padded) != rows:
        raise CannotPad(
            "computed-lengths", "the lengths are not the lengths that were fed with the rows"
        )
    return (f"{LONGEST}{rows[0]}",)


def _fed_rows(lengths: SSAValue, padded: Padded) -> Dim | None:
    """Return the dimension of the rows that lengths were fed with; None if they were not fed."""
    while isinstance(op := lengths.owner, Reshape | Assign | Cast):
        lengths = op.operands[0]
    return padded.lengths.get(lengths)


@carry.register(LinearChainCrf)
def _(op: LinearChainCrf, padded: Padded) -> Carried:
    emission, transition, label, lengths = op.operands
    _, sequences = _tagged_axes(padded, emission, lengths, (label,), transition)
    return Carried(((sequences, None),))


@carry.register(CrfDecoding)
def _(op: CrfDecoding, padded: Padded) -> Carried:
    (emission,), (transition,), (lengths,), label = op.operand_groups()
    steps, _ = _tagged_axes(padded, emission, lengths, label, transition)
    return Carried((steps,) if len(steps) == 2 else ((*steps, None),))


def _tagged_axes(
    padded: Padded,
    emission: SSAValue,
    lengths: SSAValue,
    label: Sequence[SSAValue],
    transition: SSAValue,
) -> tuple[Axes, Dim | None]:
    """Return the axes of the steps, which have a tag each, and the dimension of the sequences.

    Steps of padded sequences [sequences, steps] beyond the data are past the end of each sequence.
    """
    axes, own = padded.of(emission), padded.of(lengths)
    check_free(axes, (len(axes) - 1,), "the scores of the tags")
    check_weights(padded, [transition])
    steps = axes[:-1]
    for tags in map(padded.of, label):
        if tags[: len(steps)] != steps:
            raise CannotPad("different-padding", "tags and scores are padded differently")
        check_free(tags, range(len(steps), len(tags)), "the one tag of a step")
    if len(steps) == 1:
        return steps, _rows_and_sequences(axes, own)[1]
    check_rows(steps[0], [own], 0, "scores and lengths")
    return steps, steps[0]


@carry.register(SequenceLstm)
@carry.register(SequenceGru)
def _(op: PdOp, padded: Padded) -> Carried:
    (x,), (lengths,), *weights = op.operand_groups()
    rows, sequences = _rows_and_sequences(padded.of(x), padded.of(lengths))
    check_free(padded.of(x), (1,), "the gates")
    check_weights(padded, [value for group in weights[:2] for value in group])
    states = [padded.of(value) for group in weights[2:] for value in group]
    check_rows(sequences, states, 0, "initial states")
    return Carried(tuple((rows, None) for _ in op.results))
