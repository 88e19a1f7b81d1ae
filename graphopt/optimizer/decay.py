"""The operators of weight decay: the derivative of a penalty, which is added to a gradient."""

from __future__ import annotations

from graphopt.frontend.regularizers import L1Decay, L2Decay, WeightDecayRegularizer
from graphopt.ir.program import Parameter, Variable
from graphopt.tensor.creation import zeros_like
from graphopt.tensor.logic import greater_than, less_than
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import scale, subtract


def penalty_gradient(decay: WeightDecayRegularizer, parameter: Parameter) -> Variable:
    """The derivative of the penalty with respect to the parameter.

    A regularizer of a script's own gives it by its method `term`. Raises TypeError for one that
    has none and is neither L1Decay nor L2Decay.
    """
    own = getattr(decay, "term", None)
    if own is not None:
        return own(parameter)
    if isinstance(decay, L2Decay):
        return scale(parameter, decay._coeff)
    if not isinstance(decay, L1Decay):
        raise TypeError(f"a regularizer must be an L1Decay, an L2Decay or have `term`: {decay!r}")
    zero, dtype = zeros_like(parameter), parameter.dtype
    above, below = greater_than(parameter, zero), less_than(parameter, zero)
    return scale(subtract(cast(above, dtype), cast(below, dtype)), decay._coeff)
