"""Determinants, and products of several matrices."""

from __future__ import annotations

from graphopt.ir.dialect.ops.linalg import decompositions as ops
from graphopt.models.export.onnx.nodes import Nodes, Value
from graphopt.models.export.onnx.registry import exports


@exports(ops.Det, wide=True)
def det(emit: Nodes, x: Value) -> Value:
    return emit("Det", x)


@exports(ops.MultiDot, wide=True)
def multi_dot(emit: Nodes, x: tuple[Value, ...]) -> Value:
    product = x[0]
    for each in x[1:]:
        product = emit("MatMul", product, each)
    return product
