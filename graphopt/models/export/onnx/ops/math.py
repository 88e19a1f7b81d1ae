"""Elementwise arithmetic, comparisons and logic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import math as ops
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of
from graphopt.models.export.onnx.registry import exports, exports_as, exports_each

exports_as(
    {
        ops.Subtract: "Sub",
        ops.Divide: "Div",
        ops.Exp: "Exp",
        ops.Log: "Log",
        ops.Sqrt: "Sqrt",
        ops.Erf: "Erf",
        ops.Abs: "Abs",
    }
)


def _of_bools(op_class: type[PdOp], numbers: str, bools: str) -> None:
    """Register a rule for an op with a different ONNX operator for bools."""

    @exports(op_class)
    def rule(emit: Nodes, x: Value, y: Value) -> Value:
        return emit(bools if dtype_of(x) == "bool" else numbers, x, y)


for _op_class, _numbers, _bools in (
    (ops.Add, "Add", "Or"),
    (ops.Multiply, "Mul", "And"),
    (ops.Maximum, "Max", "Or"),
    (ops.Minimum, "Min", "And"),
):
    _of_bools(_op_class, _numbers, _bools)


def _comparison(op_class: type[PdOp], name: str) -> None:
    @exports(op_class)
    def rule(emit: Nodes, x: Value, y: Value) -> Value:
        if dtype_of(x) == "bool" and name != "Equal":
            x, y = emit.cast(x, "int32"), emit.cast(y, "int32")
        return emit(name, x, y)


for _op_class, _name in (
    (ops.Equal, "Equal"),
    (ops.LessThan, "Less"),
    (ops.LessEqual, "LessOrEqual"),
    (ops.GreaterThan, "Greater"),
    (ops.GreaterEqual, "GreaterOrEqual"),
):
    _comparison(_op_class, _name)


exports_each(
    {
        ops.NotEqual: lambda emit, x, y: emit("Not", emit("Equal", x, y)),
        ops.LogicalNot: lambda emit, x: emit("Not", emit.cast(x, "bool")),
        ops.Square: lambda emit, x: emit("Mul", x, x),
        ops.Where: lambda emit, condition, x, y: emit("Where", condition, x, y),
    }
)


def _logical(op_class: type[PdOp], name: str) -> Callable[..., Value]:
    @exports(op_class)
    def rule(emit: Nodes, x: Value, y: Value) -> Value:
        return emit(name, emit.cast(x, "bool"), emit.cast(y, "bool"))

    return rule


_logical(ops.LogicalAnd, "And")
_logical(ops.LogicalOr, "Or")


@exports(ops.ElementwisePow)
def elementwise_pow(emit: Nodes, x: Value, y: Value) -> Value:
    if dtype_of(x).is_floating:
        return emit("Pow", x, y)
    zero = emit.number(0, x)
    power = emit("Pow", x, emit("Abs", y))
    large = emit("Greater", emit("Abs", x), emit.number(1, x))
    return emit("Where", emit("And", emit("Less", y, zero), large), zero, power)


@exports(ops.Pow)
def pow_(emit: Nodes, x: Value, factor: float) -> Value:
    if factor == 2:
        return emit("Mul", x, x)
    if dtype_of(x).is_floating:
        return emit("Pow", x, emit.number(factor, x))
    return elementwise_pow(emit, x, emit.number(int(factor), x))


@exports(ops.Remainder)
def remainder(emit: Nodes, x: Value, y: Value) -> Value:
    """Compute the remainder with the sign of y; ONNX's Mod does so for integers only."""
    if not dtype_of(x).is_floating:
        return emit("Mod", x, y)
    zero = emit.number(0, x)
    rest = emit("Mod", x, y, fmod=1)
    signs = emit("Xor", emit("Less", rest, zero), emit("Less", y, zero))
    other = emit("And", signs, emit("Not", emit("Equal", rest, zero)))
    return emit("Where", other, emit("Add", rest, y), rest)


@exports(ops.FloorDivide)
def floor_divide(emit: Nodes, x: Value, y: Value) -> Value:
    whole = emit("Div", emit("Sub", x, remainder(emit, x, y)), y)
    return emit("Round", whole) if dtype_of(x).is_floating else whole


def _without_nan(op_class: type[PdOp], name: str) -> None:
    @exports(op_class)
    def rule(emit: Nodes, x: Value, y: Value) -> Value:
        wins = emit(name, x, y)
        if dtype_of(x).is_floating:
            wins = emit("Or", wins, emit("IsNaN", y))
        return emit("Where", wins, x, y)


_without_nan(ops.Fmax, "GreaterOrEqual")
_without_nan(ops.Fmin, "LessOrEqual")


@exports(ops.Rsqrt, wide=True)
def rsqrt(emit: Nodes, x: Value) -> Value:
    return emit("Reciprocal", emit("Sqrt", x))


@exports(ops.Clip)
def clip(emit: Nodes, x: Value, min: float, max: float) -> Value:
    if not dtype_of(x).is_floating:
        limits = np.iinfo(dtype_of(x).numpy)
        bounds = [int(np.clip(bound, limits.min, limits.max)) for bound in (min, max)]
        low, high = (emit.constant(np.array(bound, dtype_of(x).numpy)) for bound in bounds)
        return emit("Clip", x, low, high)
    return emit("Clip", x, emit.number(min, x), emit.number(max, x))


@exports(ops.Scale, wide=True, open=("scale",))
def scale_(
    emit: Nodes, x: Value, scale: float | Value, bias: float, bias_after_scale: bool
) -> Value:
    factor = scale if isinstance(scale, Value) else emit.number(scale, x)
    if isinstance(scale, Value):
        factor = emit.reshape(emit.cast(scale, dtype_of(x)), emit.ints([]))
    offset = emit.number(bias, x)
    shifts = offset.const_value is not None and bool(offset.const_value.numpy() != 0)
    if not bias_after_scale and shifts:
        x = emit("Add", x, offset)
    if isinstance(scale, Value) or factor.const_value.numpy() != 1:  # pyright: ignore
        x = emit("Mul", x, factor)
    return emit("Add", x, offset) if bias_after_scale and shifts else x


@exports(ops.Cast)
def cast(emit: Nodes, x: Value, dtype: DType) -> Value:
    """Cast; narrow integers take the low bits of a wider one, as in Paddle."""
    has_point = not dtype_of(x).is_whole and dtype_of(x) != "bool"
    if has_point and dtype.is_whole and dtype not in ("int32", "int64", "uint64"):
        x = emit.cast(x, dtype.cut_in.name)
    return emit.cast(x, dtype)


@exports(ops.AddN, wide=True)
def add_n(emit: Nodes, inputs: tuple[Value, ...]) -> Value:
    if len(inputs) == 1:
        return inputs[0]
    if dtype_of(inputs[0]).is_floating:
        return emit("Sum", *inputs)
    total = inputs[0]
    for each in inputs[1:]:
        total = emit("Or" if dtype_of(total) == "bool" else "Add", total, each)
    return total
