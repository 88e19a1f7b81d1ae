"""Arithmetic and elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import elementary, logic
from graphopt.ir.dialect.ops import math as ops
from graphopt.ir.dialect.ops.reduce import Cumprod, Cumsum
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank
from graphopt.ir.translate.onnx.registry import Rule, reads, reads_as

reads_as(
    {
        "Abs": ops.Abs,
        "Acos": elementary.Acos,
        "Acosh": elementary.Acosh,
        "Asin": elementary.Asin,
        "Asinh": elementary.Asinh,
        "Atan": elementary.Atan,
        "Atanh": elementary.Atanh,
        "Ceil": elementary.Ceil,
        "Cos": elementary.Cos,
        "Cosh": elementary.Cosh,
        "Exp": ops.Exp,
        "Floor": elementary.Floor,
        "Log": ops.Log,
        "Reciprocal": elementary.Reciprocal,
        "Sign": elementary.Sign,
        "Sin": elementary.Sin,
        "Sinh": elementary.Sinh,
        "Sqrt": ops.Sqrt,
        "Tan": elementary.Tan,
        "And": ops.LogicalAnd,
        "Or": ops.LogicalOr,
        "Xor": logic.LogicalXor,
        "Not": ops.LogicalNot,
        "Equal": ops.Equal,
        "Greater": ops.GreaterThan,
        "GreaterOrEqual": ops.GreaterEqual,
        "Less": ops.LessThan,
        "LessOrEqual": ops.LessEqual,
        "IsNaN": logic.Isnan,
        "Where": ops.Where,
        "BitwiseAnd": logic.BitwiseAnd,
        "BitwiseOr": logic.BitwiseOr,
        "BitwiseXor": logic.BitwiseXor,
        "BitwiseNot": logic.BitwiseNot,
    }
)


def _number(emit: OnnxEmitter, value: SSAValue, other: SSAValue) -> float | None:
    """Return the number in a 0-D float constant if `other` is no constant; None otherwise."""
    if rank(value) or not dtype(value).is_floating or emit.known_elements(other) is not None:
        return None
    found = emit.known_elements(value)
    return None if found is None else float(found[0])


@reads("Add")
def add(emit: OnnxEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
    """Emit an addition; a constant becomes a scale's bias, as in scripts, so patterns match it."""
    for value, other in ((x, y), (y, x)):
        number = _number(emit, value, other)
        if number is not None:
            return emit(ops.Scale, other, bias=number)
    return emit(ops.Add, x, y)


@reads("Sub")
def sub(emit: OnnxEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
    number = _number(emit, y, x)
    if number is not None:
        return emit(ops.Scale, x, bias=-number)
    number = _number(emit, x, y)
    if number is not None:
        return emit(ops.Scale, y, scale=-1.0, bias=number)
    return emit(ops.Subtract, x, y)


@reads("Mul")
def mul(emit: OnnxEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
    for value, other in ((x, y), (y, x)):
        number = _number(emit, value, other)
        if number is not None:
            return emit(ops.Scale, other, scale=number)
    return emit(ops.Multiply, x, y)


@reads("Div")
def div(emit: OnnxEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
    return emit(ops.Divide, x, y)


@reads("Neg")
def neg(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    return emit(ops.Scale, x, scale=-1.0)


@reads("Mod")
def mod(emit: OnnxEmitter, x: SSAValue, y: SSAValue, *, fmod: int = 0) -> SSAValue:
    """Emit the remainder with the divisor's sign; with `fmod`, the dividend's sign, as in C."""
    if not fmod:
        return emit(ops.Remainder, x, y)
    size = emit(ops.Remainder, emit(ops.Abs, x), emit(ops.Abs, y))
    if dtype(x).is_floating:
        return emit(elementary.Copysign, size, x)
    is_negative = emit(ops.LessThan, x, emit.number(0, x))
    return emit(ops.Where, is_negative, emit(ops.Scale, size, scale=-1.0), size)


@reads("Pow")
def power(emit: OnnxEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
    """Emit a power in the dtype of `x`, whatever the dtype of the exponent."""
    kept = dtype(x)
    exponent = emit.known_elements(y) if not rank(y) else None
    if exponent is not None and kept.is_floating:
        number = float(exponent[0])
        return emit(ops.Square, x) if number == 2 else emit(ops.Pow, x, factor=number)
    if dtype(y) == kept:
        return emit(ops.ElementwisePow, x, y)
    wide = "float64" if not kept.is_floating else kept
    return emit.cast(emit(ops.ElementwisePow, emit.cast(x, wide), emit.cast(y, wide)), kept)


def _folding(op_class: type[PdOp]) -> Rule:
    def rule(emit: OnnxEmitter, *operands: SSAValue) -> SSAValue:
        return reduce(lambda x, y: emit(op_class, x, y), operands)

    return rule


for _name, _op in {"Sum": ops.Add, "Max": ops.Maximum, "Min": ops.Minimum}.items():
    reads(_name)(_folding(_op))


@reads("Mean")
def mean(emit: OnnxEmitter, *operands: SSAValue) -> SSAValue:
    total = _folding(ops.Add)(emit, *operands)
    assert isinstance(total, SSAValue)
    return emit(ops.Divide, total, emit.number(len(operands), total))


@reads("Round")
def half_to_even(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    """Round half to even; `pd.round` rounds half away from zero."""
    down = emit(elementary.Floor, x)
    is_half = emit(ops.Equal, emit(ops.Subtract, x, down), emit.number(0.5, x))
    half = emit(elementary.Round, emit(ops.Scale, x, scale=0.5))
    even = emit(ops.Scale, half, scale=2.0)
    return emit(ops.Where, is_half, even, emit(elementary.Round, x))


@reads("IsInf")
def is_inf(
    emit: OnnxEmitter, x: SSAValue, *, detect_negative: int = 1, detect_positive: int = 1
) -> SSAValue:
    found = emit(logic.Isinf, x)
    zero = emit.number(0, x)
    if not detect_positive:
        found = emit(ops.LogicalAnd, found, emit(ops.LessThan, x, zero))
    if not detect_negative:
        found = emit(ops.LogicalAnd, found, emit(ops.GreaterThan, x, zero))
    return found


@reads("BitShift")
def bit_shift(emit: OnnxEmitter, x: SSAValue, y: SSAValue, *, direction: str) -> SSAValue:
    left = emit.one_of(direction, ("LEFT", "RIGHT")) == "LEFT"
    op_class = elementary.BitwiseLeftShift if left else elementary.BitwiseRightShift
    return emit(op_class, x, y, is_arithmetic=True)


def _running(op_class: type[PdOp]) -> Callable[..., SSAValue]:
    def rule(
        emit: OnnxEmitter, x: SSAValue, axis: SSAValue, *, exclusive: int = 0, reverse: int = 0
    ) -> SSAValue:
        at = emit.axis(int(emit.numbers(axis, "axis")[0]), rank(x))
        flags = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
        return emit.cast(emit(op_class, x, axis=at, **flags), dtype(x))

    return rule


reads("CumSum")(_running(Cumsum))
reads("CumProd")(_running(Cumprod))
