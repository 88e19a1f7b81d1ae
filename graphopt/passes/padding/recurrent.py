"""Padded axes in recurrent networks: sequences are independent, steps come one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.math import Add, Minimum, Where
from graphopt.ir.dialect.ops.sequence.recurrent import GruUnit, LstmUnit, Rnn
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.passes.engine.inserting import Before
from graphopt.passes.padding.dims import Axes, CannotPad, Dim
from graphopt.passes.padding.rules import Carried, Padded, RealRows, carry, check_free


def check_rows(rows: Dim | None, values: Sequence[Axes], at: int, what: str) -> None:
    """Raise CannotPad unless the values have the rows `rows` on axis `at`, and no other padding."""
    for axes in values:
        if axes[at] != rows:
            raise CannotPad("different-padding", f"{what} are padded differently")
        check_free(axes, [other for other in range(len(axes)) if other != at], what)


def check_weights(padded: Padded, values: Sequence[SSAValue]) -> None:
    """Raise CannotPad when a weight is padded."""
    if any(any(padded.of(value)) for value in values):
        raise CannotPad("padded-weight", "a weight is padded")


@carry.register(Rnn)
def _(op: Rnn, padded: Padded) -> Carried:
    """Treat padded steps like steps past the length of every sequence."""
    (x,), states, weights, lengths = op.operand_groups()
    time, batch, inputs = padded.of(x)
    check_rows(inputs, [(None,)], 0, "its inputs")
    check_rows(batch, [padded.of(state) for state in states], 1, "inputs and states")
    check_rows(batch, [padded.of(value) for value in lengths], 0, "inputs and lengths")
    check_weights(padded, weights)
    final = (None, batch, None)
    results = ((time, batch, None), *(final for _ in states))
    if time is None:
        return Carried(results)
    if len(time) != 1:
        raise CannotPad("joined-rows", "the steps of the data are not the first steps")
    return Carried(results, write=lambda old, real: _end_with_data(old, real, time))


def _end_with_data(op: Rnn, real: RealRows, time: Dim) -> Sequence[SSAValue]:
    """Run the network on sequences that end with the data.

    Outputs beyond the data must be ordinary numbers: the cell applied to the last state, or, where
    the program has 0 past each sequence's own length, the output of the first step.
    """
    new = Before(op)
    (x,), states, weights, given = op.operand_groups()
    attrs = op.attr_values()
    if given:
        lengths = given[0]
        lengths = new(Minimum.make(lengths, new.cast(real.count(time), lengths)))
    else:
        attrs["zero_padding"] = False
        cut = {"axes": [0, 2], "starts": [0, 0], "ends": [1, 1], "decrease_axis": [0, 2]}
        zeros = new(FullLike.make(new(Slice.make(states[0], **cut)), value=0.0, dtype="int64"))
        lengths = new(Add.make(zeros, real.count(time)))
    made = Rnn.make(x, states, weights, lengths, **attrs)
    out = new(made)
    if attrs["zero_padding"]:
        first = new(Slice.make(out, axes=[0], starts=[0], ends=[1]))
        out = new(Where.make(real.mask(time, 3, 0), out, first))
    return [out, *made.results[1:]]


@carry.register(GruUnit)
@carry.register(LstmUnit)
def _(op: PdOp, padded: Padded) -> Carried:
    """Keep the rows of one step, which are independent."""
    values, weights = op.operands[:2], op.operands[2:]
    every = [padded.of(value) for value in values]
    check_rows(every[0][0], every, 0, "inputs and states")
    check_weights(padded, weights)
    return Carried(tuple((every[0][0], None) for _ in op.results))
