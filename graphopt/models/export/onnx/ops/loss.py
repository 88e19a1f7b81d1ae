"""Losses that models give as outputs."""

from __future__ import annotations

from graphopt.ir.dialect.ops import loss as ops
from graphopt.models.export.onnx.emitter import Emitter, Value
from graphopt.models.export.onnx.registry import exports


@exports(ops.BinaryCrossEntropy, wide=True)
def bce_loss(emit: Emitter, x: Value, label: Value) -> Value:
    """Logarithms below -100 are -100."""
    one, bound = emit.number(1, x), emit.number(-100, x)
    yes, no = (
        emit("Mul", share, emit("Max", emit("Log", p), bound))
        for share, p in ((label, x), (emit("Sub", one, label), emit("Sub", one, x)))
    )
    return emit("Neg", emit("Add", yes, no))


@exports(ops.HuberLoss, wide=True)
def huber_loss(emit: Emitter, x: Value, y: Value, delta: float) -> tuple[Value, Value]:
    error = emit("Sub", y, x)
    size, bound, half = emit("Abs", error), emit.number(delta, x), emit.number(0.5, x)
    inner = emit("Mul", half, emit("Mul", error, error))
    outer = emit("Mul", bound, emit("Sub", size, emit("Mul", half, bound)))
    return emit("Where", emit("LessOrEqual", size, bound), inner, outer), error
