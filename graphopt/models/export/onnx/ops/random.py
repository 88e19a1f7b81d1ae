"""Ops that draw random numbers: those that draw none when a program is not in training."""

from __future__ import annotations

from graphopt.ir.dialect.ops import random as ops
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value
from graphopt.models.export.onnx.registry import exports


@exports(ops.Dropout)
def dropout(emit: Nodes, x: Value, p: float, is_test: bool, mode: str) -> Value:
    if p == 0 or (is_test and mode == "upscale_in_train"):
        return x
    if is_test:
        return emit("Mul", x, emit.number(1 - p, x))
    raise NotInOnnx("it is in training; write a program for tests: Program.clone(for_test=True)")
