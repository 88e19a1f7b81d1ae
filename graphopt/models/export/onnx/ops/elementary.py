"""Elementary functions of elements."""

from __future__ import annotations

import math

from graphopt.ir.dialect.ops import elementary as ops
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of
from graphopt.models.export.onnx.registry import exports, exports_as

exports_as(
    {
        ops.Acos: "Acos",
        ops.Acosh: "Acosh",
        ops.Asin: "Asin",
        ops.Asinh: "Asinh",
        ops.Atan: "Atan",
        ops.Atanh: "Atanh",
        ops.Cos: "Cos",
        ops.Cosh: "Cosh",
        ops.Reciprocal: "Reciprocal",
        ops.Sign: "Sign",
        ops.Sin: "Sin",
        ops.Sinh: "Sinh",
        ops.Tan: "Tan",
    }
)


@exports(ops.Floor)
def floor(emit: Nodes, x: Value) -> Value:
    return emit("Floor", x) if dtype_of(x).is_floating else x


@exports(ops.Ceil)
def ceil(emit: Nodes, x: Value) -> Value:
    return emit("Ceil", x) if dtype_of(x).is_floating else x


@exports(ops.Trunc)
def trunc(emit: Nodes, x: Value) -> Value:
    if not dtype_of(x).is_floating:
        return x
    negative = emit("Less", x, emit.number(0, x))
    return emit("Where", negative, emit("Ceil", x), emit("Floor", x))


@exports(ops.Round, wide=True)
def round_(emit: Nodes, x: Value) -> Value:
    """Halves go away from zero, where ONNX rounds them to even numbers."""
    if not dtype_of(x).is_floating:
        return x
    size = emit("Abs", x)
    whole = emit("Floor", size)
    up = emit("GreaterOrEqual", emit("Sub", size, whole), emit.number(0.5, x))
    return emit("Mul", emit("Sign", x), emit("Add", whole, emit.cast(up, dtype_of(x))))


@exports(ops.Log2, wide=True)
def log2(emit: Nodes, x: Value) -> Value:
    return emit("Div", emit("Log", x), emit.number(math.log(2), x))


@exports(ops.Log10, wide=True)
def log10(emit: Nodes, x: Value) -> Value:
    return emit("Div", emit("Log", x), emit.number(math.log(10), x))


@exports(ops.Log1p, wide=True)
def log1p(emit: Nodes, x: Value) -> Value:
    """x * log(u) / (u - 1) with u the rounded 1 + x, in which the rounding cancels out."""
    one = emit.number(1, x)
    more = emit("Add", one, x)
    step = emit("Sub", more, one)
    scaled = emit("Mul", emit("Log", more), emit("Div", x, step))
    is_tiny = emit("Equal", step, emit.number(0, x))
    is_large = emit("Greater", x, emit.number(1e7, x))
    return emit("Where", is_tiny, x, emit("Where", is_large, emit("Log", more), scaled))


@exports(ops.Expm1, wide=True)
def expm1(emit: Nodes, x: Value) -> Value:
    """tanh(x / 2) * (exp(x) + 1), which keeps the digits of small x."""
    half = emit("Tanh", emit("Mul", x, emit.number(0.5, x)))
    return emit("Mul", half, emit("Add", emit("Exp", x), emit.number(1, x)))


@exports(ops.Stanh, wide=True)
def stanh(emit: Nodes, x: Value, scale_a: float, scale_b: float) -> Value:
    inner = emit("Tanh", emit("Mul", x, emit.number(scale_a, x)))
    return emit("Mul", inner, emit.number(scale_b, x))


@exports(ops.Logit, wide=True)
def logit(emit: Nodes, x: Value, eps: float) -> Value:
    if eps:
        x = emit("Clip", x, emit.number(eps, x), emit.number(1 - eps, x))
    return emit("Sub", emit("Log", x), log1p(emit, emit("Neg", x)))


@exports(ops.Heaviside)
def heaviside(emit: Nodes, x: Value, y: Value) -> Value:
    zero = emit.number(0, x)
    positive = emit.cast(emit("Greater", x, zero), dtype_of(x))
    return emit("Where", emit("Equal", x, zero), y, positive)


@exports(ops.Atan2, wide=True)
def atan2(emit: Nodes, x: Value, y: Value) -> Value:
    """The angle of the point (y, x): that of the line through it, and half a turn left of 0."""
    zero, half = emit.number(0, x), emit.number(math.pi, x)
    flat, upright = emit("Equal", x, zero), emit("Equal", y, zero)
    line = emit("Where", flat, zero, emit("Atan", emit("Div", x, y)))
    up = emit("Where", emit("Less", x, zero), emit("Neg", half), half)
    left = emit("Where", emit("Less", y, zero), up, zero)
    quarter = emit("Mul", emit("Sign", x), emit.number(math.pi / 2, x))
    return emit("Where", upright, quarter, emit("Add", line, left))


@exports(ops.Lerp, wide=True)
def lerp(emit: Nodes, x: Value, y: Value, weight: Value) -> Value:
    return emit("Add", x, emit("Mul", weight, emit("Sub", y, x)))
