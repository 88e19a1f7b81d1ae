"""Legacy operators of automatic mixed precision: undoing the scale of the loss, and moving it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.logic import Isfinite
from graphopt.ir.dialect.ops.math import (
    Divide,
    Equal,
    LogicalNot,
    LogicalOr,
    Maximum,
    Multiply,
    Scale,
    Where,
)
from graphopt.ir.dialect.ops.reduce import All
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.types import dtype_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.operators.emitter import Emitter
from graphopt.ir.translate.operators.translator import Translator


def _check_finite_and_unscale(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Gradients divided by the scale; from the first that is not finite on, zeros."""
    emit = Emitter(self, op)
    emit.only("X", "Scale")
    scale = emit.input("Scale")
    inverse = emit(Divide, emit(FullLike, scale, value=1.0), scale)
    nothing = emit(FullLike, scale, value=0.0)
    found: SSAValue | None = None
    written: dict[str, SSAValue] = {}
    for source, target in zip(op.input("X"), op.output("Out"), strict=True):
        x = self.read(source)
        bad = emit(Reshape, emit(LogicalNot, emit(All, emit(Isfinite, x))), shape=(1,))
        found = bad if found is None else emit(LogicalOr, found, bad)
        factor = emit(Reshape, emit(Where, found, nothing, inverse), shape=())
        written[target] = emit(Multiply, x, factor)
    if found is not None:
        written.update(dict.fromkeys(op.output("FoundInfinite"), found))
    return written


def _update_loss_scaling(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Smaller after some steps that were not finite, larger after many that were.

    Gradients that are not finite become zeros.
    """
    counters = ("PrevLossScaling", "InGoodSteps", "InBadSteps")
    emit = Emitter(self, op)
    emit.only("X", "FoundInfinite", "StopUpdate", *counters)
    found = emit.input("FoundInfinite")
    whole = emit(Reshape, found, shape=())
    written: dict[str, SSAValue] = {}
    for source, target in zip(op.input("X"), op.output("Out"), strict=True):
        x = self.read(source)
        written[target] = emit(Where, whole, emit(FullLike, x, value=0.0), x)
    if op.attrs.get("stop_update"):
        return written
    slots = dict(zip(counters, ("LossScaling", "OutGoodSteps", "OutBadSteps"), strict=True))
    scale, good, bad = (self.read(op.input(slot)[0]) for slot in slots)
    zero = emit(FullLike, good, value=0)
    more_good, more_bad = (emit(Scale, count, scale=1.0, bias=1.0) for count in (good, bad))
    grown = emit(Scale, scale, scale=float(op.attrs.get("incr_ratio", 2.0)))
    grown = emit(Where, emit(Isfinite, grown), grown, scale)
    shrunk = emit(Scale, scale, scale=float(op.attrs.get("decr_ratio", 0.5)))
    shrunk = emit(Maximum, shrunk, emit(FullLike, scale, value=1.0))
    grows = emit(Equal, more_good, _number(emit, good, op.attr("incr_every_n_steps")))
    shrinks = emit(Equal, more_bad, _number(emit, bad, op.attr("decr_every_n_nan_or_inf")))
    new = (
        emit(Where, found, emit(Where, shrinks, shrunk, scale), emit(Where, grows, grown, scale)),
        emit(Where, found, zero, emit(Where, grows, zero, more_good)),
        emit(Where, found, emit(Where, shrinks, zero, more_bad), zero),
    )
    stops = [name for name in op.input("StopUpdate") if name != EMPTY]
    for (_, slot), old, value in zip(slots.items(), (scale, good, bad), new, strict=True):
        kept = emit(Where, self.read(stops[0]), old, value) if stops else value
        written.update(dict.fromkeys(op.output(slot), kept))
    return written


def _number(emit: Emitter, like: SSAValue, value: int) -> SSAValue:
    return emit(FullLike, like, value=value, dtype=dtype_of(like.type))


SCALING: Mapping[str, Callable[[Translator, Operator], dict[str, SSAValue]]] = {
    "check_finite_and_unscale": _check_finite_and_unscale,
    "update_loss_scaling": _update_loss_scaling,
}
