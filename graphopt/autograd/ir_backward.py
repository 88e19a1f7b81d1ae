"""Gradients of Paddle 3 programs (paddle.autograd.ir_backward), the same as in Paddle 2 here."""

from __future__ import annotations

from typing import Any

from graphopt.frontend.backward import gradients
from graphopt.frontend.calls import publish
from graphopt.ir.program import Variable


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Variable | None]:
    """Append the gradients of the outputs by each input, as `paddle.static.gradients`.

    `grad_outputs` weight the outputs; None in it is a weight of ones. The flags of dynamic mode
    have no effect. Raises TypeError for arguments that are not Variables.
    """
    blocked = [no_grad_vars] if isinstance(no_grad_vars, Variable) else no_grad_vars
    return gradients(outputs, inputs, grad_outputs, blocked and set(blocked))


calc_gradient = gradients

publish(globals(), __name__)
