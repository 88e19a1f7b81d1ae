"""Bitwise operations, and predicates on the elements of tensors."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import logic as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


def _of_bits(op_class: type[PdOp], bits: str, bools: str) -> None:
    @exports(op_class)
    def rule(emit: Nodes, x: Value, y: Value | None = None) -> Value:
        name = bools if dtype_of(x) == "bool" else bits
        return emit(name, x) if y is None else emit(name, x, y)


_of_bits(ops.BitwiseAnd, "BitwiseAnd", "And")
_of_bits(ops.BitwiseOr, "BitwiseOr", "Or")
_of_bits(ops.BitwiseXor, "BitwiseXor", "Xor")
_of_bits(ops.BitwiseNot, "BitwiseNot", "Not")


@exports(ops.LogicalXor)
def logical_xor(emit: Nodes, x: Value, y: Value) -> Value:
    return emit("Xor", emit.cast(x, "bool"), emit.cast(y, "bool"))


def _none(emit: Nodes, x: Value) -> Value:
    """Emit False for every element."""
    return emit("Expand", emit.constant(np.array(False)), emit.shape(x))


@exports(ops.Isnan)
def isnan(emit: Nodes, x: Value) -> Value:
    return emit("IsNaN", x) if dtype_of(x).is_floating else _none(emit, x)


@exports(ops.Isinf, wide=True)
def isinf(emit: Nodes, x: Value) -> Value:
    return emit("IsInf", x) if dtype_of(x).is_floating else _none(emit, x)


@exports(ops.Isfinite, wide=True)
def isfinite(emit: Nodes, x: Value) -> Value:
    if not dtype_of(x).is_floating:
        return emit("Not", _none(emit, x))
    return emit("Not", emit("Or", emit("IsNaN", x), emit("IsInf", x)))


def all_of(emit: Nodes, flags: Value) -> Value:
    """Reduce flags to one: True if all elements are True."""
    return emit.cast(emit("ReduceMin", emit.cast(flags, "int32"), keepdims=0), "bool")


@exports(ops.EqualAll)
def equal_all(emit: Nodes, x: Value, y: Value) -> Value:
    if UNKNOWN in (*sizes_of(x), *sizes_of(y)):
        raise NotInOnnx("whether the shapes are equal is known only when the model runs")
    if sizes_of(x) != sizes_of(y):
        return emit.constant(np.array(False))
    return all_of(emit, emit("Equal", x, y))


@exports(ops.Isclose)
def isclose(emit: Nodes, x: Value, y: Value, rtol: float, atol: float, equal_nan: bool) -> Value:
    x, y = emit.cast(x, "float64"), emit.cast(y, "float64")
    room = emit("Mul", emit.number(rtol, x), emit("Abs", y))
    distance = emit("Abs", emit("Sub", x, y))
    near = emit("LessOrEqual", distance, emit("Add", emit.number(atol, x), room))
    close = emit("Or", near, emit("Equal", x, y))
    if equal_nan:
        close = emit("Or", close, emit("And", emit("IsNaN", x), emit("IsNaN", y)))
    return close


@exports(ops.Allclose)
def allclose(emit: Nodes, x: Value, y: Value, rtol: float, atol: float, equal_nan: bool) -> Value:
    return all_of(emit, isclose(emit, x, y, rtol, atol, equal_nan))
