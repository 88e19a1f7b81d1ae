"""The legacy `slice` at positions that tensors give.

Where every cut axis has one position and is dropped, it is a lookup and needs no size from data;
Paddle writes `x[i]` with a tensor `i` that way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.types import normalize_axis, rank_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt.ir.translate.operators.translator import Translator


def _slice(self: Translator, op: Operator) -> dict[str, SSAValue]:
    positions = _positions(self, op)
    if positions is None:
        return self.by_row(op, BY_TYPE[op.type])
    value = self.read(op.input("Input")[0])
    for axis, position in sorted(positions.items(), reverse=True):
        number = self.emit(Reshape, op, position, shape=()).results[0]
        value = self.emit(Gather, op, value, number, axis=axis).results[0]
    return {op.output("Out")[0]: value}


def _positions(self: Translator, op: Operator) -> dict[int, SSAValue] | None:
    """The position on each axis when all are tensors and all axes are dropped, else None."""
    starts = [name for name in op.input("StartsTensorList") if name != EMPTY]
    if not starts and len(op.attr("axes")) == 1:
        starts = [name for name in op.input("StartsTensor") if name != EMPTY]
    rank = rank_of(self.read(op.input("Input")[0]).type)
    axes = [normalize_axis(int(axis), rank) for axis in op.attr("axes")]
    dropped = {normalize_axis(int(axis), rank) for axis in op.attrs.get("decrease_axis") or ()}
    if len(starts) != len(axes) or set(axes) != dropped or rank == 0:
        return None
    values = [self.read(name) for name in starts]
    if all(known_numbers(value) is not None for value in values):
        return None
    return dict(zip(axes, values, strict=True))


SLICES: Mapping[str, Callable[[Translator, Operator], dict[str, SSAValue]]] = {"slice": _slice}
