"""Metrics (paddle.metric)."""

from __future__ import annotations

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import LayerHelper


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """How often the label is among the k largest scores: a float32 scalar (paddle.metric.accuracy).

    `input` is [n, classes], `label` int64 [n, 1]. `correct` and `total` receive the counts.
    """
    arguments.variable(input, "input", "accuracy")
    arguments.variable(label, "label", "accuracy")
    helper = LayerHelper("accuracy", name)
    attrs = {"k": arguments.integer(k, "k", "accuracy"), "sorted": False}
    top, indices = helper.emit_all(
        "top_k_v2", {"X": input}, attrs, ("Out", "Indices"), stop_gradient=True
    )
    out = helper.temporary(stop_gradient=True)
    counts = {"Correct": correct, "Total": total}
    outputs = {
        s: helper.temporary(stop_gradient=True) if v is None else v for s, v in counts.items()
    }
    inputs = {"Out": top, "Indices": indices, "Label": label}
    helper.append_op("accuracy", inputs, {"Accuracy": out, **outputs})
    return out
