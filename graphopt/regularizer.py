"""Weight decay as terms added to gradients (paddle.regularizer)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from graphopt.ir.program import Parameter, Variable


class WeightDecayRegularizer(ABC):
    """Base of the regularizers; `coeff` is the strength of the penalty."""

    def __init__(self, coeff: float = 0.0) -> None:
        if isinstance(coeff, bool) or not isinstance(coeff, (int, float)):
            raise TypeError(
                f"{type(self).__name__}(): 'coeff' must be a number, found {type(coeff).__name__}"
            )
        self._coeff = float(coeff)

    @abstractmethod
    def term(self, parameter: Parameter) -> Variable:
        """The derivative of the penalty, which is added to the gradient."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(coeff={self._coeff:f})"


class L1Decay(WeightDecayRegularizer):
    """coeff * sum(|w|), so coeff * sign(w) is added (Paddle page: paddle.regularizer.L1Decay)."""

    def term(self, parameter: Parameter) -> Variable:
        from graphopt.tensor.creation import zeros_like
        from graphopt.tensor.logic import greater_than, less_than
        from graphopt.tensor.manipulation import cast
        from graphopt.tensor.math import scale, subtract

        zero, dtype = zeros_like(parameter), parameter.dtype
        above, below = greater_than(parameter, zero), less_than(parameter, zero)
        return scale(subtract(cast(above, dtype), cast(below, dtype)), self._coeff)


class L2Decay(WeightDecayRegularizer):
    """coeff / 2 * sum(w * w), so coeff * w is added (Paddle page: paddle.regularizer.L2Decay)."""

    def term(self, parameter: Parameter) -> Variable:
        from graphopt.tensor.math import scale

        return scale(parameter, self._coeff)
