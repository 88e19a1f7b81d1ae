"""Arithmetic and comparisons of tensors that are aligned by an axis, and activations."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.activation import Hardswish, Hardtanh, Softplus, Tanh
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.elementary import Trunc
from graphopt.ir.dialect.ops.math import (
    Add,
    Divide,
    Exp,
    LessThan,
    Minimum,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of, show
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.table import BY_TYPE

_COMPARISONS = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")


@translates(*(t for t in BY_TYPE if t.startswith("elementwise_")), *_COMPARISONS)
def elementwise(emit: Emitter) -> Written:
    """Translate a binary operator; y's dimensions start at `axis` of x."""
    x, y = align_ranks(emit, emit.input("X"), emit.input("Y"), emit.attr("axis"))
    return emit.by_row(x, y)


@translates("trunc_divide")
def trunc_divide(emit: Emitter) -> Written:
    """Emit the quotient rounded toward zero, as integer division does already."""
    quotient = emit(Divide, emit.input("x"), emit.input("y"))
    is_whole = not dtype_of(quotient.type).is_floating
    return emit.results(out=quotient if is_whole else emit(Trunc, quotient))


def align_ranks(emit: Emitter, x: SSAValue, y: SSAValue, axis: int) -> tuple[SSAValue, SSAValue]:
    """Append axes of size 1 to the operand of lower rank, so that it starts at `axis`.

    -1 is ordinary broadcasting. Raises ProgramError for an axis that neither operand has.
    """
    if rank_of(x.type) < rank_of(y.type):
        y, x = align_ranks(emit, y, x, axis)
        return x, y
    if not -1 <= axis <= rank_of(x.type):
        raise ProgramError(f"axis {axis} is neither -1 nor an axis of x {show(x.type)}")
    trailing = rank_of(x.type) - rank_of(y.type) - axis
    if axis != -1 and trailing > 0:
        shape = (*(d if d >= 0 else 0 for d in shape_of(y.type)), *(1,) * trailing)
        y = emit(Reshape, y, shape=shape)
    return x, y


# from this threshold on, the exact formula gives the same float32
_FAR = 20.0


@translates("mish")
def mish(emit: Emitter) -> Written:
    """Emit x * tanh(softplus(x)); softplus is x above a threshold, exp(x) below its negative.

    A threshold of at most 0 or at least 20 leaves the exact formula.
    """
    threshold = emit.attr("threshold")
    if not 0 < threshold < _FAR:
        return emit.by_row()
    emit.only("X")
    x = emit.input("X")
    limit = emit(FullLike, x, value=threshold)
    low = emit(LessThan, x, emit.scale(limit, -1.0))
    plus = emit(Where, emit(LessThan, limit, x), x, emit(Softplus, x))
    # exp of a large x would be infinite, and its derivative NaN
    plus = emit(Where, low, emit(Exp, emit(Minimum, x, limit)), plus)
    return emit.results(Out=emit(Multiply, x, emit(Tanh, plus)))


@translates("minus")
def minus(emit: Emitter) -> Written:
    emit.only("X", "Y")
    x, y = align_ranks(emit, emit.input("X"), emit.input("Y"), -1)
    return emit.results(Out=emit(Subtract, x, y))


@translates("grad_add")
def grad_add(emit: Emitter) -> Written:
    return emit.results(Out=emit(Add, emit.input("X"), emit.input("Y")))


@translates("isclose", "allclose")
def close(emit: Emitter) -> Written:
    """Translate a comparison whose tolerances are stored as text."""
    names = (name for name in ("rtol", "atol") if name in emit.op.attrs)
    given: dict[str, Any] = {name: float(emit.op.attrs[name]) for name in names}
    return emit.by_row(**given)


@translates("scale")
def scale(emit: Emitter) -> Written:
    """Translate scale; factor and bias are attributes or tensors."""
    emit.only("X", "ScaleTensor", "BiasTensor")
    factor, more = emit.optional("ScaleTensor"), emit.optional("BiasTensor")
    x, bias, after = emit.input("X"), emit.attr("bias"), emit.attr("bias_after_scale")
    if factor is None and more is None:
        return emit.by_row()
    times = _number(emit, x, factor, emit.attr("scale"))
    plus = _number(emit, x, more, bias)
    if after:
        return emit.results(Out=emit(Add, emit(Multiply, x, times), plus))
    return emit.results(Out=emit(Multiply, emit(Add, x, plus), times))


@translates("clip")
def clip(emit: Emitter) -> Written:
    """Translate clip; the bounds are attributes or tensors."""
    emit.only("X", "Min", "Max")
    x, low, high = emit.input("X"), emit.optional("Min"), emit.optional("Max")
    if low is None and high is None:
        return emit.by_row()
    lower = _number(emit, x, low, emit.attr("min"))
    upper = _number(emit, x, high, emit.attr("max"))
    out = emit(Where, emit(LessThan, x, lower), lower, x)
    return emit.results(Out=emit(Where, emit(LessThan, upper, out), upper, out))


def _number(emit: Emitter, x: SSAValue, given: SSAValue | None, constant: float) -> SSAValue:
    """Emit a number to combine with x: the element of a tensor if there is one, or a constant."""
    if given is None:
        return emit(FullLike, x, value=constant)
    return emit.like(emit.reshape(given, *(1,) * rank_of(x.type)), x)


@translates("swish")
def swish(emit: Emitter) -> Written:
    """Translate swish; with beta 1 it is `pd.silu`, which fusions match."""
    plain = emit.attr("beta") == 1.0
    return emit.by_row(row=BY_TYPE["silu" if plain else "swish"])


@translates("relu6")
def relu6(emit: Emitter) -> Written:
    """Translate relu6; the bound may differ from 6."""
    bound = emit.attr("threshold")
    if bound == 6.0:
        return emit.by_row()
    return emit.results(Out=emit(Hardtanh, emit.input("X"), t_min=0.0, t_max=bound))


_HARD_SWISH = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}


@translates("hard_swish")
def hard_swish(emit: Emitter) -> Written:
    if any(emit.attr(name) != usual for name, usual in _HARD_SWISH.items()):
        raise UnsupportedError(
            "operator hard_swish is supported only with threshold 6, scale 6 and offset 3"
        )
    return emit.results(Out=emit(Hardswish, emit.input("X")))


@translates("soft_relu")
def soft_relu(emit: Emitter) -> Written:
    """Emit log(1 + exp(x)) for x clamped to ± threshold."""
    limit = emit.attr("threshold")
    x = emit(Hardtanh, emit.input("X"), t_min=-limit, t_max=limit)
    return emit.results(Out=emit(Softplus, x, threshold=limit))
