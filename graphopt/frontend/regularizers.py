"""The kinds and strengths of weight decay (paddle.regularizer).

`optimizer/decay.py` appends the operators.
"""

from __future__ import annotations

from graphopt.frontend import arguments


class WeightDecayRegularizer:
    """Base of the regularizers; `coeff` is the strength of the penalty."""

    def __init__(self, coeff: float = 0.0) -> None:
        self._coeff = arguments.number(coeff, "coeff", type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(coeff={self._coeff:f})"


class L1Decay(WeightDecayRegularizer):
    """coeff * sum(|w|), so coeff * sign(w) is added (Paddle page: paddle.regularizer.L1Decay)."""


class L2Decay(WeightDecayRegularizer):
    """coeff / 2 * sum(w * w), so coeff * w is added (Paddle page: paddle.regularizer.L2Decay)."""
