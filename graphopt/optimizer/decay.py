"""The operators of weight decay: the derivative of a penalty, which is added to a gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphopt.frontend.layer_helper import emit
from graphopt.frontend.mode import current_op_attrs, op_attrs
from graphopt.frontend.regularizers import L1Decay, L2Decay, WeightDecayRegularizer
from graphopt.ir.program import Parameter, Variable, VarKind, default_main_program, program_guard
from graphopt.tensor.math import scale


def penalty_gradient(decay: WeightDecayRegularizer, parameter: Parameter) -> Variable:
    """Compute the derivative of the penalty with respect to the parameter.

    The method `term` of a user-defined regularizer computes it. Raises TypeError for a regularizer
    without `term` that is neither L1Decay nor L2Decay.
    """
    own = getattr(decay, "term", None)
    if own is not None:
        return own(parameter)
    if isinstance(decay, L2Decay):
        return scale(parameter, decay._coeff)
    if not isinstance(decay, L1Decay):
        raise TypeError(f"a regularizer must be an L1Decay, an L2Decay or have `term`: {decay!r}")
    return scale(emit("sign", {"X": parameter}), decay._coeff)


def with_penalty(
    parameter: Parameter, grad: Variable, decay: WeightDecayRegularizer | None
) -> Variable:
    """Add the penalty's derivative to a gradient, in place or, if sparse, in a new variable."""
    if decay is None:
        return grad
    with op_attrs(op_role_var=[parameter.name, grad.name]):
        inputs = {"X": [grad, penalty_gradient(decay, parameter)]}
        block = default_main_program().current_block()
        total = grad
        if grad.kind == VarKind.SELECTED_ROWS:
            total = block.create_var(f"{grad.name}@NEWGRAD@", grad.shape, grad.dtype)
        block.append_op("sum", inputs, {"Out": total}, current_op_attrs())
    return total


def with_penalties(
    pairs: Iterable[tuple[Parameter, Variable | None]], decay: WeightDecayRegularizer | None
) -> list[tuple[Parameter, Any]]:
    """Add the penalty of each parameter's regularizer, or else of `decay`, to its gradient."""
    made: list[tuple[Parameter, Any]] = []
    for parameter, grad in pairs:
        if grad is not None:
            with program_guard(grad.block.program):
                own = getattr(parameter, "regularizer", None) or decay
                made.append((parameter, with_penalty(parameter, grad, own)))
        else:
            made.append((parameter, None))
    return made
