"""Metrics as operators (paddle.fluid.layers.metric_op)."""

from __future__ import annotations

from graphopt.fluid.common import vector
from graphopt.ir.program import Variable
from graphopt.metric import accuracy as _accuracy


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """How often the label is among the k largest scores: float32 of shape [1] (layers.accuracy)."""
    return vector(_accuracy(input, label, k, correct, total))
