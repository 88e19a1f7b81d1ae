"""Metrics that are outputs of models."""

from __future__ import annotations

from graphopt.ir.dialect.ops.metric import Accuracy
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of
from graphopt.models.export.onnx.registry import exports


@exports(Accuracy)
def accuracy(emit: Nodes, indices: Value, label: Value) -> tuple[Value, Value, Value]:
    wanted = emit.reshape(emit.cast(label, dtype_of(indices)), [-1, 1])
    own = emit.cast(emit("Equal", indices, wanted), "int32")
    hits = emit("ReduceMax", own, emit.ints([1]), keepdims=0)
    correct = emit("ReduceSum", hits, keepdims=0)
    rows = emit.reshape(emit.size(indices, 0), emit.ints([]))
    most = emit("Max", rows, emit.number(1, "int64"))
    share = emit("Div", emit.cast(correct, "float32"), emit.cast(most, "float32"))
    return share, correct, emit.cast(rows, "int32")
