"""Quantization in saved models: numbers rounded to 2^bits steps of a scale, and back.

Values stay in floating point, as in Paddle's own kernels; stored integers are dequantized by a
multiplication.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.math import Abs, Add, Divide
from graphopt.ir.dialect.ops.quantised import AWAY, EVEN, DequantizeLinear, QuantizeLinear
from graphopt.ir.dialect.ops.reduce import Max
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

# the largest numbers of float8_e4m3fn and float8_e5m2
_FLOAT8 = (448.0, 57344.0)


def _steps(emit: Emitter) -> float:
    """Return the largest quantized number: `qmax`, by default the largest of `bit_length` bits."""
    bits = emit.attr("bit_length")
    if not 1 < bits <= 16:
        raise ProgramError(f"operator {emit.op.type} does not support {bits} bits")
    given = emit.attr("qmax")
    return float(2 ** (bits - 1) - 1) if given is None else float(given)


def _fit_scale(emit: Emitter, scale: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """Reshape a scale to broadcast to x: one number, or one for each index of an axis."""
    rank = rank_of(x.type)
    if axis < 0 or shape_of(scale.type) in ((), (1,)):
        return emit.reshape(scale, *(1,) * rank)
    if axis >= rank:
        raise ProgramError(f"axis {axis} of {list(shape_of(x.type))} cannot have scales")
    return emit.along(scale, rank, axis)


def _quantise(emit: Emitter, x: SSAValue, scale: SSAValue) -> SSAValue:
    """Quantize x / scale to whole steps."""
    steps = _steps(emit)
    if steps in _FLOAT8:
        raise ProgramError(
            f"operator {emit.op.type}: 'qmax' is {steps:g}, for float8, which is not supported; "
            "quantize to integers, for example with 'qmax' 127"
        )
    way = EVEN if emit.attr("round_type") == EVEN else AWAY
    return emit(QuantizeLinear, x, scale, steps=steps, round_type=way)


def _largest(emit: Emitter, x: SSAValue, axis: int) -> SSAValue:
    """Emit the largest absolute value, of all elements or per index of an axis, as a vector."""
    axes = tuple(i for i in range(rank_of(x.type)) if i != axis)
    size = emit(Max, emit(Abs, x), axis=axes)
    return size if axis >= 0 else emit.reshape(size, 1)


def _restore(emit: Emitter, whole: SSAValue, scale: SSAValue) -> SSAValue:
    return emit(DequantizeLinear, whole, scale, steps=_steps(emit))


@translates(
    "fake_quantize_abs_max",
    "fake_quantize_dequantize_abs_max",
    "fake_channel_wise_quantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
)
def fake_abs_max(emit: Emitter) -> Written:
    """Quantize by the largest absolute value of x or of each channel."""
    emit.only("X", "InScale")
    x, axis = emit.input("X"), -1
    if "channel_wise" in emit.op.type:
        axis = emit.attr("quant_axis")
    given = emit.optional("InScale") if emit.attr("is_test") else None
    scale = _largest(emit, x, axis) if given is None else given
    return _fake(emit, x, scale, axis, OutScale=scale)


def _fake(emit: Emitter, x: SSAValue, scale: SSAValue, axis: int, **others: SSAValue) -> Written:
    """Quantize x to whole steps, and dequantize it if the operator does."""
    fitted = _fit_scale(emit, scale, x, axis)
    out = _quantise(emit, x, fitted)
    if "dequantize" in emit.op.type:
        out = _restore(emit, out, fitted)
    return emit.results(Out=out, **others)


def _moving(emit: Emitter, x: SSAValue) -> dict[str, SSAValue]:
    """Emit a moving average of the largest absolute values, in which later ones count more."""
    rate = emit.attr("moving_rate")
    state = emit.scale(emit.input("InState"), rate, 1.0)
    total = emit(Add, emit.scale(emit.input("InAccum"), rate), _largest(emit, x, -1))
    return {"OutState": state, "OutAccum": total, "OutScale": emit(Divide, total, state)}


@translates(
    "fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max"
)
def fake_moving(emit: Emitter) -> Written:
    emit.only("X", "InScale", "InAccum", "InState")
    x = emit.input("X")
    if emit.attr("is_test"):
        scale = emit.input("InScale")
        return _fake(emit, x, scale, -1, OutScale=scale)
    moved = _moving(emit, x)
    return _fake(emit, x, moved["OutScale"], -1, **moved)


@translates("moving_average_abs_max_scale")
def moving_scale(emit: Emitter) -> Written:
    """Observe the scale only: x is unchanged."""
    emit.only("X", "InAccum", "InState")
    x = emit.input("X")
    if emit.attr("is_test"):
        return emit.results(Out=x)
    return emit.results(Out=x, **_moving(emit, x))


@translates("fake_quantize_range_abs_max")
def fake_range(emit: Emitter) -> Written:
    emit.only("X", "InScale", "Iter")
    if not emit.attr("is_test"):
        raise UnsupportedError(
            f"operator {emit.op.type} in training; use fake_quantize_moving_average_abs_max"
        )
    scale = emit.input("InScale")
    return _fake(emit, emit.input("X"), scale, -1, OutScale=scale)


@translates("quantize_linear")
def quantize_linear(emit: Emitter) -> Written:
    """Quantize x / scale to whole steps."""
    x, scale = _operands(emit)
    if emit.attr("only_observer"):
        return emit.results(Y=x)
    if not emit.attr("is_test"):
        raise UnsupportedError(
            "operator quantize_linear that learns its scale (is_test=False) is not supported"
        )
    fitted = _fit_scale(emit, scale, x, emit.attr("quant_axis"))
    return emit.results(Y=_quantise(emit, x, fitted))


@translates("dequantize_linear")
def dequantize_linear(emit: Emitter) -> Written:
    """Multiply whole steps by the scale."""
    x, scale = _operands(emit)
    if emit.attr("only_observer"):
        return emit.results(Y=x)
    x = emit.like(x, scale)
    fitted = _fit_scale(emit, scale, x, emit.attr("quant_axis"))
    return emit.results(Y=_restore(emit, x, fitted))


def _operands(emit: Emitter) -> tuple[SSAValue, SSAValue]:
    """Read tensor and scale; check the dtype of the zero point, whose value Paddle ignores."""
    emit.only("X", "Scale", "ZeroPoint", "InAccum", "InState")
    zero = emit.optional("ZeroPoint")
    if zero is not None and not dtype_of(zero.type).startswith(("float", "int")):
        raise ProgramError(
            f"a zero point should be a signed integer or float, found {dtype_of(zero.type)}"
        )
    return emit.input("X"), emit.input("Scale")


@translates("fake_dequantize_max_abs", "dequantize_abs_max")
def from_max(emit: Emitter) -> Written:
    emit.only("X", "Scale")
    scale = emit.input("Scale")
    x = emit.like(emit.input("X"), scale)
    fitted = _fit_scale(emit, scale, x, -1)
    return emit.results(Out=emit(DequantizeLinear, x, fitted, steps=emit.attr("max_range")))


@translates("fake_channel_wise_dequantize_max_abs")
def from_channel_max(emit: Emitter) -> Written:
    """Dequantize by a scale for each channel, then by one for all."""
    emit.only("X", "Scales")
    scales = emit.inputs("Scales")
    bits = list(emit.attr("quant_bits"))
    out = emit.like(emit.input("X"), scales[0])
    axes = [emit.attr("quant_axis"), -1]
    if len(scales) == 2:
        axes[0] = emit.attr("x_num_col_dims")
    for scale, axis, count in zip(scales, axes, bits, strict=False):
        fitted, steps = _fit_scale(emit, scale, out, axis), 2.0 ** (int(count) - 1) - 1
        out = emit(DequantizeLinear, out, fitted, steps=steps)
    return emit.results(Out=out)
