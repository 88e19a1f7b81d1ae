"""Weight decay under the names of 1.8 (paddle.fluid.regularizer)."""

from __future__ import annotations

from graphopt.frontend.missing import explain
from graphopt.frontend.regularizers import L1Decay as _L1Decay
from graphopt.frontend.regularizers import L2Decay as _L2Decay
from graphopt.frontend.regularizers import WeightDecayRegularizer as WeightDecayRegularizer


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

explain(globals())
