"""The legacy `slice` at positions that tensors give.

Where every cut axis has one position and is dropped, it is a lookup and needs no size from data;
Paddle writes `x[i]` with a tensor `i` that way.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.constants import known_numbers
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.types import normalize_axis, rank_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("slice")
def sliced(emit: Emitter) -> Written:
    positions = _positions(emit)
    if positions is None:
        return emit.by_row()
    value = emit.input("Input")
    for axis, position in sorted(positions.items(), reverse=True):
        value = emit(Gather, value, emit.reshaped(position), axis=axis)
    return emit.results(Out=value)


def _positions(emit: Emitter) -> dict[int, SSAValue] | None:
    """The position on each axis when all are tensors and all axes are dropped, else None."""
    op = emit.op
    starts = emit.inputs("StartsTensorList")
    if not starts and len(op.attr("axes")) == 1:
        starts = emit.inputs("StartsTensor")
    rank = rank_of(emit.input("Input").type)
    axes = [normalize_axis(int(axis), rank) for axis in op.attr("axes")]
    dropped = {normalize_axis(int(axis), rank) for axis in op.attrs.get("decrease_axis") or ()}
    if len(starts) != len(axes) or set(axes) != dropped or rank == 0:
        return None
    if all(known_numbers(value) is not None for value in starts):
        return None
    return dict(zip(axes, starts, strict=True))
