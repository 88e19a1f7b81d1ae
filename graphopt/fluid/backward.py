"""Gradients (paddle.fluid.backward)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend.backward import append_backward as append_backward
from graphopt.frontend.backward import gradients as gradients
from graphopt.frontend.calls import publish
from graphopt.ir.program import Variable


def calc_gradient(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Any = None,
    no_grad_set: Any = None,
) -> Any:
    """As `gradients`, but the gradient of a single input is no list (fluid.backward)."""
    found = gradients(targets, inputs, target_gradients, no_grad_set)
    return found[0] if len(found) == 1 else found


publish(globals(), __name__)
