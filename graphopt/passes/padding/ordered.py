"""Padded axes in ops that know a first and a last row: ranges, reversal, running sums."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Cast, Subtract
from graphopt.ir.dialect.ops.rearrange import Flip, TriangleOf
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.ops.shape import Reshape, Slice
from graphopt.ir.dialect.types import normalize_axes, normalize_axis
from graphopt.passes.engine.inserting import Before
from graphopt.passes.padding.dims import CannotPad, Dim, windows
from graphopt.passes.padding.rules import FAR, Carried, Mask, Padded, RealRows, carry, takes_one


@carry.register(Slice)
def _(op: Slice, padded: Padded) -> Carried:
    axes = list(padded.of(op.operands[0]))
    cut = normalize_axes(op.attr("axes"), len(axes))
    last: list[tuple[int, Dim]] = []
    for at, start, end in zip(cut, op.attr("starts"), op.attr("ends"), strict=True):
        dim = axes[at]
        if dim is None:
            continue
        if takes_one(start, end):
            if start == -1:
                last.append((at, dim))
            axes[at] = None
        elif start >= 0 and (end < 0 or end >= FAR):
            # cutting off first and last rows leaves the data first
            axes[at] = windows(dim, (end if end < 0 else 0) - start, 1)
        else:
            raise CannotPad(
                "counts-rows", f"the op cuts rows {start} to {end} out of a padded axis"
            )
    dropped = set(normalize_axes(op.attr("decrease_axis"), len(axes)))
    results = (tuple(dim for at, dim in enumerate(axes) if at not in dropped),)
    if not last:
        return Carried(results)
    for _, dim in last:
        _check_plain(dim)

    def write(op: Slice, real: RealRows) -> Sequence[SSAValue]:
        new, value = Before(op), op.operands[0]
        for at, dim in last:
            one = new(Full.make(shape=[], value=1.0, dtype="int64"))
            index = new(Reshape.make(new(Subtract.make(real.count(dim), one)), shape=[1]))
            value = new(Gather.make(value, index, axis=at))
        return [new(Slice.make(value, **op.attr_values()))]

    return Carried(results, write=write)


def _check_plain(dim: Dim) -> None:
    """Raise CannotPad unless the data rows come first."""
    if len(dim) != 1:
        raise CannotPad("joined-rows", "the rows of the data are not the first rows of their axis")


@carry.register(Flip)
def _(op: Flip, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    flipped = normalize_axes(op.attr("axis"), len(axes))
    found = [(at, dim) for at in flipped if (dim := axes[at]) is not None]
    for _, dim in found:
        _check_plain(dim)
    if not found:
        return Carried((axes,))

    def write(op: Flip, real: RealRows) -> Sequence[SSAValue]:
        """Put the last data row first; the padding repeats the row that is then last."""
        new, value = Before(op), op.operands[0]
        for at, dim in found:
            numbers = new(Cumsum.make(new(Cast.make(real.mask(dim, 1, 0), dtype="int64")), axis=0))
            index = new(Subtract.make(real.count(dim), numbers))
            value = new(Gather.make(value, index, axis=at))
        others = [at for at in flipped if axes[at] is None]
        return [new(Flip.make(value, axis=others)) if others else value]

    return Carried((axes,), write=write)


@carry.register(TriangleOf)
def _(op: TriangleOf, padded: Padded) -> Carried:
    """Keep the axes: the row and column of an element decide, and padding changes neither."""
    axes = padded.of(op.operands[0])
    for dim in axes[-2:]:
        if dim is not None:
            _check_plain(dim)
    return Carried((axes,))


@carry.register(Cumsum)
def _(op: Cumsum, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    if op.attr("flatten"):
        raise CannotPad("counts-rows", "the op runs over the elements of all axes")
    at = normalize_axis(op.attr("axis"), len(axes))
    if axes[at] is None:
        return Carried((axes,))
    # in reverse the padding comes first; forward, it repeats the last sum
    return Carried((axes,), (Mask(0, (at,), 0.0),))
