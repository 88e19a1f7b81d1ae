"""Weight decay under the names of 1.8 (paddle.fluid.regularizer)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphopt.frontend.missing import explain
from graphopt.frontend.regularizers import L1Decay as _L1Decay
from graphopt.frontend.regularizers import L2Decay as _L2Decay
from graphopt.frontend.regularizers import WeightDecayRegularizer as WeightDecayRegularizer
from graphopt.ir.program import Parameter, Variable
from graphopt.optimizer.decay import with_penalties


class L1DecayRegularizer(_L1Decay):
    """regularization_coeff * sum(|w|) (Paddle page: fluid.regularizer.L1DecayRegularizer)."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


class L2DecayRegularizer(_L2Decay):
    """regularization_coeff / 2 * sum(w * w) (fluid.regularizer.L2DecayRegularizer)."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer


def append_regularization_ops(
    parameters_and_grads: Iterable[tuple[Parameter, Variable | None]], regularization: Any = None
) -> list[tuple[Parameter, Variable | None]]:
    """Add weight decay to gradients, by the parameter's regularizer or else `regularization`."""
    return with_penalties(parameters_and_grads, regularization)


explain(globals())
