"""Losses over a tree of classes."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable


def hsigmoid_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    weight: Variable,
    bias: Variable | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute the cost [n, 1] of finding labels in a tree (nn.functional.hsigmoid_loss).

    `input` is [n, d], `label` [n, 1]; the weight has a row [d] and the bias [nodes, 1] a number for
    each inner node. The tree is the complete binary one, or `path_table` and `path_code` (both
    [n, length], negative past the end) list each sample's nodes and decisions. As in Paddle, steps
    that a short path lacks cost log 2 each. Gradients are dense: `is_sparse` has no effect.
    """
    classes = arguments.integer(num_classes, "num_classes", "hsigmoid_loss")
    if classes < 2 and path_table is None:
        raise ValueError(f"Expected num_classes >= 2 (got {classes})")
    inputs: dict[str, Any] = {
        "X": arguments.variable(input, "input", "hsigmoid_loss"),
        "W": arguments.variable(weight, "weight", "hsigmoid_loss"),
        "Label": arguments.variable(label, "label", "hsigmoid_loss"),
        "Bias": bias,
        "PathTable": path_table,
        "PathCode": path_code,
    }
    attrs = {"num_classes": classes, "is_sparse": is_sparse}
    helper = LayerHelper("hsigmoid_loss", name)
    return helper.emit_all("hierarchical_sigmoid", inputs, attrs, ("Out", "PreOut"))[0]
