"""Quantisation in saved models: numbers rounded to 2^bits steps of a scale, and back.

Values stay in floating point, as in Paddle's own kernels; where integers are stored, dequantising
multiplies them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.elementary import Reciprocal, Round, Trunc
from graphopt.ir.dialect.ops.math import (
    Abs,
    Add,
    Divide,
    Equal,
    LessEqual,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.reduce import Max
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation


def _steps(make: Maker) -> float:
    bits = make.attr("bit_length", 8)
    if not 1 < bits <= 16:
        raise ProgramError(f"operator {make.op.type} of {bits} bits")
    return float(2 ** (bits - 1) - 1)


def _fitted(make: Maker, scale: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """A scale as a tensor that broadcasts to x: one number, or one for each index of an axis."""
    rank = rank_of(x.type)
    if axis < 0 or shape_of(scale.type) in ((), (1,)):
        return make.reshaped(scale, *(1,) * rank)
    if axis >= rank:
        raise ProgramError(f"axis {axis} of {list(shape_of(x.type))} cannot have scales")
    return make.along(scale, rank, axis)


def _even(make: Maker, x: SSAValue) -> SSAValue:
    """The nearest whole number; of two, the even one."""
    half = make(FullLike, x, value=0.5)
    tie = make(Equal, make(Abs, make(Subtract, x, make(Trunc, x))), half)
    even = make.scaled(make(Round, make.scaled(x, 0.5)), 2.0)
    return make(Where, tie, even, make(Round, x))


def _inverse(make: Maker, scale: SSAValue) -> SSAValue:
    """1 / scale; a scale of 0 counts as a millionth, so that zeros stay zeros."""
    least = make(FullLike, scale, value=1e-30)
    off_zero = make.scaled(scale, 1.0, 1e-6)
    return make(Reciprocal, make(Where, make(LessEqual, scale, least), off_zero, scale))


def _quantised(make: Maker, x: SSAValue, scale: SSAValue) -> SSAValue:
    """x / scale in whole steps."""
    steps = _steps(make)
    if make.attr("round_type", 1) == 0:
        # rounded to even first, then kept in range, which has one step more below
        whole = _even(make, make(Multiply, make.scaled(_inverse(make, scale), steps), x))
        top, low = (make(FullLike, whole, value=v) for v in (steps, -steps - 1))
        return make(Maximum, make(Minimum, whole, top), low)
    kept = make(Maximum, make(Minimum, x, scale), make.scaled(scale, -1.0))
    return make(Round, make(Multiply, make.scaled(_inverse(make, scale), steps), kept))


def _largest(make: Maker, x: SSAValue, axis: int) -> SSAValue:
    """The largest size of an element, of all or for each index of an axis: a vector."""
    axes = tuple(i for i in range(rank_of(x.type)) if i != axis)
    size = make(Max, make(Abs, x), axis=axes)
    return size if axis >= 0 else make.reshaped(size, 1)


def _restored(make: Maker, whole: SSAValue, scale: SSAValue) -> SSAValue:
    return make.scaled(make(Multiply, whole, scale), 1.0 / _steps(make))


def _fake_abs_max(make: Maker) -> Written:
    """By the largest element, of x or for each channel."""
    make.only("X", "InScale")
    x, axis = make.input("X"), -1
    if "channel_wise" in make.op.type:
        axis = make.attr("quant_axis", 0)
    given = make.optional("InScale") if make.attr("is_test", False) else None
    scale = _largest(make, x, axis) if given is None else given
    return _fake(make, x, scale, axis, OutScale=scale)


def _fake(make: Maker, x: SSAValue, scale: SSAValue, axis: int, **others: SSAValue) -> Written:
    """x in whole steps, and back where the operator also dequantises."""
    fitted = _fitted(make, scale, x, axis)
    out = _quantised(make, x, fitted)
    if "dequantize" in make.op.type:
        out = _restored(make, out, fitted)
    return make.results(Out=out, **others)


def _moving(make: Maker, x: SSAValue) -> dict[str, SSAValue]:
    """A mean of the largest elements in which later ones count more."""
    rate = make.attr("moving_rate", 0.9)
    state = make.scaled(make.input("InState"), rate, 1.0)
    total = make(Add, make.scaled(make.input("InAccum"), rate), _largest(make, x, -1))
    return {"OutState": state, "OutAccum": total, "OutScale": make(Divide, total, state)}


def _fake_moving(make: Maker) -> Written:
    make.only("X", "InScale", "InAccum", "InState")
    x = make.input("X")
    if make.attr("is_test", False):
        scale = make.input("InScale")
        return _fake(make, x, scale, -1, OutScale=scale)
    moved = _moving(make, x)
    return _fake(make, x, moved["OutScale"], -1, **moved)


def _moving_scale(make: Maker) -> Written:
    """Only observes: x is not changed."""
    make.only("X", "InAccum", "InState")
    x = make.input("X")
    if make.attr("is_test", False):
        return make.results(Out=x)
    return make.results(Out=x, **_moving(make, x))


def _fake_range(make: Maker) -> Written:
    make.only("X", "InScale", "Iter")
    if not make.attr("is_test", False):
        raise UnsupportedError(
            f"operator {make.op.type} in training; use fake_quantize_moving_average_abs_max"
        )
    scale = make.input("InScale")
    return _fake(make, make.input("X"), scale, -1, OutScale=scale)


def _linear(make: Maker) -> Written:
    """quantize_linear: x / scale in whole steps."""
    make.only("X", "Scale", "ZeroPoint", "InAccum", "InState")
    _check_zero(make)
    x, scale = make.input("X"), make.input("Scale")
    if make.attr("only_observer", False):
        return make.results(Y=x)
    if not make.attr("is_test", True):
        raise UnsupportedError("quantize_linear that is learning its scale (is_test false)")
    fitted = _fitted(make, scale, x, make.attr("quant_axis", -1))
    return make.results(Y=_quantised(make, x, fitted))


def _from_linear(make: Maker) -> Written:
    """dequantize_linear: whole steps times the scale."""
    make.only("X", "Scale", "ZeroPoint", "InAccum", "InState")
    _check_zero(make)
    x, scale = make.input("X"), make.input("Scale")
    if make.attr("only_observer", False):
        return make.results(Y=x)
    x = make.like(x, scale)
    fitted = _fitted(make, scale, x, make.attr("quant_axis", -1))
    return make.results(Y=_restored(make, x, fitted))


def _check_zero(make: Maker) -> None:
    """Paddle's kernels do not look at the zero point."""
    zero = make.optional("ZeroPoint")
    if zero is not None and not dtype_of(zero.type).startswith(("float", "int")):
        raise ProgramError(f"a zero point of {dtype_of(zero.type)!s}")


def _from_max(make: Maker) -> Written:
    make.only("X", "Scale")
    scale = make.input("Scale")
    x = make.like(make.input("X"), scale)
    product = make(Multiply, x, _fitted(make, scale, x, -1))
    return make.results(Out=make.scaled(product, 1.0 / make.attr("max_range", 127.0)))


def _from_channel_max(make: Maker) -> Written:
    """By a scale for each channel, then by one for all."""
    make.only("X", "Scales")
    scales = make.inputs("Scales")
    bits = list(make.attr("quant_bits", (8,)))
    out = make.like(make.input("X"), scales[0])
    axes = [make.attr("quant_axis", 0), -1]
    if len(scales) == 2:
        axes[0] = make.attr("x_num_col_dims", 1)
    for scale, axis, count in zip(scales, axes, bits, strict=False):
        product = make(Multiply, out, _fitted(make, scale, out, axis))
        out = make.scaled(product, 1.0 / (2 ** (int(count) - 1) - 1))
    return make.results(Out=out)


QUANTISED: Mapping[str, Translation] = {
    type: translation(made)
    for type, made in {
        "quantize_linear": _linear,
        "dequantize_linear": _from_linear,
        "fake_quantize_abs_max": _fake_abs_max,
        "fake_quantize_dequantize_abs_max": _fake_abs_max,
        "fake_channel_wise_quantize_abs_max": _fake_abs_max,
        "fake_channel_wise_quantize_dequantize_abs_max": _fake_abs_max,
        "fake_quantize_moving_average_abs_max": _fake_moving,
        "fake_quantize_dequantize_moving_average_abs_max": _fake_moving,
        "moving_average_abs_max_scale": _moving_scale,
        "fake_quantize_range_abs_max": _fake_range,
        "fake_dequantize_max_abs": _from_max,
        "fake_channel_wise_dequantize_max_abs": _from_channel_max,
    }.items()
}
