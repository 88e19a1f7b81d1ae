"""Legacy operators of automatic mixed precision: undoing the scale of the loss, and moving it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.logic import Isfinite
from graphopt.ir.dialect.ops.math import (
    Cast,
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
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("check_finite_and_unscale")
def check_finite_and_unscale(emit: Emitter) -> Written:
    """Gradients divided by the scale; from the first that is not finite on, zeros."""
    emit.only("X", "Scale")
    scale = emit.input("Scale")
    inverse = emit(Divide, emit(FullLike, scale, value=1.0), scale)
    nothing = emit(FullLike, scale, value=0.0)
    found: SSAValue | None = None
    written: Written = {}
    for source, target in zip(emit.op.input("X"), emit.op.output("Out"), strict=True):
        x = emit.read(source)
        bad = emit(Reshape, emit(LogicalNot, emit(All, emit(Isfinite, x))), shape=(1,))
        found = bad if found is None else emit(LogicalOr, found, bad)
        factor = emit(Reshape, emit(Where, found, nothing, inverse), shape=())
        written[target] = _times(emit, x, factor)
    if found is not None:
        written.update(dict.fromkeys(emit.op.output("FoundInfinite"), found))
    return written


def _times(emit: Emitter, x: SSAValue, factor: SSAValue) -> SSAValue:
    """A gradient times a number, computed in the dtype of the number, which may be wider."""
    own, wide = dtype_of(x.type), dtype_of(factor.type)
    if own == wide:
        return emit(Multiply, x, factor)
    return emit(Cast, emit(Multiply, emit(Cast, x, dtype=wide), factor), dtype=own)


@translates("update_loss_scaling")
def update_loss_scaling(emit: Emitter) -> Written:
    """Smaller after some steps that were not finite, larger after many that were.

    Gradients that are not finite become zeros.
    """
    counters = ("PrevLossScaling", "InGoodSteps", "InBadSteps")
    emit.only("X", "FoundInfinite", "StopUpdate", *counters)
    found = emit.input("FoundInfinite")
    whole = emit(Reshape, found, shape=())
    written: Written = {}
    for source, target in zip(emit.op.input("X"), emit.op.output("Out"), strict=True):
        x = emit.read(source)
        written[target] = emit(Where, whole, emit(FullLike, x, value=0.0), x)
    if emit.attr("stop_update"):
        return written
    slots = dict(zip(counters, ("LossScaling", "OutGoodSteps", "OutBadSteps"), strict=True))
    scale, good, bad = (emit.input(slot) for slot in slots)
    zero = emit(FullLike, good, value=0)
    more_good, more_bad = (emit(Scale, count, scale=1.0, bias=1.0) for count in (good, bad))
    grown = emit(Scale, scale, scale=emit.attr("incr_ratio"))
    grown = emit(Where, emit(Isfinite, grown), grown, scale)
    shrunk = emit(Scale, scale, scale=emit.attr("decr_ratio"))
    shrunk = emit(Maximum, shrunk, emit(FullLike, scale, value=1.0))
    grows = emit(Equal, more_good, _number(emit, good, emit.op.attr("incr_every_n_steps")))
    shrinks = emit(Equal, more_bad, _number(emit, bad, emit.op.attr("decr_every_n_nan_or_inf")))
    new = (
        emit(Where, found, emit(Where, shrinks, shrunk, scale), emit(Where, grows, grown, scale)),
        emit(Where, found, zero, emit(Where, grows, zero, more_good)),
        emit(Where, found, emit(Where, shrinks, zero, more_bad), zero),
    )
    stop = emit.optional("StopUpdate")
    for (_, slot), old, value in zip(slots.items(), (scale, good, bad), new, strict=True):
        kept = value if stop is None else emit(Where, stop, old, value)
        written.update(dict.fromkeys(emit.op.output(slot), kept))
    return written


def _number(emit: Emitter, like: SSAValue, value: int) -> SSAValue:
    return emit(FullLike, like, value=value, dtype=dtype_of(like.type))
