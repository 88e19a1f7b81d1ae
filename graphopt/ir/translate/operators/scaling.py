"""Legacy operators of mixed precision: unscale the gradients, and update the scale of the loss."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.logic import Isfinite
from graphopt.ir.dialect.ops.math import (
    Cast,
    Divide,
    Equal,
    GreaterThan,
    LogicalNot,
    Maximum,
    Multiply,
    Scale,
    Where,
)
from graphopt.ir.dialect.ops.rearrange import TriangleOf, Unbind
from graphopt.ir.dialect.ops.reduce import Any, Sum
from graphopt.ir.dialect.ops.shape import Expand, Reshape, Stack
from graphopt.ir.dialect.types import dtype_of
from graphopt.ir.program.sub_blocks import sub_blocks
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("check_finite_and_unscale")
def check_finite_and_unscale(emit: Emitter) -> Written:
    """Divide gradients by the scale; from the first non-finite one on, the results are zeros.

    The inverse of a large scale is a denormal number, which devices flush to 0, also in a division
    by the scale. So such a scale and its gradients are first multiplied by a small power of two.
    """
    emit.only("X", "Scale")
    scale = emit.input("Scale")
    one, nothing = (emit(FullLike, scale, value=value) for value in (1.0, 0.0))
    is_large = emit(GreaterThan, scale, emit(FullLike, scale, value=_LARGE))
    shrink = emit(Where, is_large, emit(FullLike, scale, value=1.0 / _LARGE), one)
    inverse = emit(Divide, one, emit(Multiply, scale, shrink))
    shrink = emit(Reshape, shrink, shape=())
    sources, targets = emit.op.input("X"), emit.op.output("Out")
    if not sources:
        return {}
    gradients = [emit.read(source) for source in sources]
    # x * 0 is NaN unless x is finite; XLA compiles sums faster than reductions of flags
    finite = [emit(Isfinite, emit(Sum, _times(emit, x, nothing))) for x in gradients]
    bad = emit(LogicalNot, emit(Stack, finite))
    if _become_zeros(emit):
        # slices of one array as factors would make each kernel a different one
        factors: Sequence[SSAValue] = [inverse] * len(finite)
    else:
        before = _some_before(emit, bad, len(finite))
        factors = emit.all(Unbind, emit(Where, before, nothing, inverse))
    scaled = (_times(emit, x, shrink, factor) for x, factor in zip(gradients, factors, strict=True))
    written = dict(zip(targets, scaled, strict=True))
    found = emit(Any, bad, axis=(0,), keepdim=True)
    return {**written, **dict.fromkeys(emit.op.output("FoundInfinite"), found)}


def _become_zeros(emit: Emitter) -> bool:
    """True if `update_loss_scaling` makes zeros of all results when one is not finite.

    No other operator may read them before: their own zeros are not computed then.
    """
    flags, left = set(emit.op.output("FoundInfinite")), set(emit.op.output("Out"))
    for each in emit.after():
        if sub_blocks(each):
            return False
        read, written = set(each.input_arg_names), set(each.output_arg_names)
        if each.type == "update_loss_scaling" and flags & set(each.input("FoundInfinite")):
            left -= set(each.input("X")) & set(each.output("Out"))
            if not left:
                return True
        is_flag = each.type in ("concat", "reduce_any") and bool(flags & read)
        flags = flags | written if is_flag else flags - written
        if left & (read | written):
            return False
    return False


def _some_before(emit: Emitter, flags: SSAValue, count: int) -> SSAValue:
    """Emit, for each flag, whether it or one before it is set.

    Each is a reduction of all flags. XLA would recompute a chain of them in each kernel that reads
    one, and its compile time would grow with the square of the number of gradients.
    """
    rows = emit(Expand, flags, shape=(count, count))
    return emit(Any, emit(TriangleOf, rows), axis=(1,))


_LARGE = 2.0**40


def _times(emit: Emitter, x: SSAValue, *factors: SSAValue) -> SSAValue:
    """Multiply a gradient by numbers, in the dtype of these, which may be wider."""
    own, wide = dtype_of(x.type), dtype_of(factors[0].type)
    value = x if own == wide else emit(Cast, x, dtype=wide)
    for factor in factors:
        value = emit(Multiply, value, factor)
    return value if own == wide else emit(Cast, value, dtype=own)


@translates("update_loss_scaling")
def update_loss_scaling(emit: Emitter) -> Written:
    """Shrink the scale after some non-finite steps, grow it after many finite ones.

    In a non-finite step all gradients become zeros.
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
