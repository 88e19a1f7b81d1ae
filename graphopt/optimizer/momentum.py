"""Gradient descent with momentum, also with a rate of its own for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend.regularizers import L2Decay, WeightDecayRegularizer
from graphopt.ir.program import Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer, check_required


class Momentum(Optimizer):
    """v = mu * v + g; p -= lr * v, or p -= lr * (g + mu * v) with Nesterov's form.

    The update itself adds L2Decay, so that `<parameter>@GRAD` is without it, as in Paddle 2.x.
    The state is `<parameter>_velocity_0`. `rescale_grad` is kept on the operator and has no effect
    in static programs, as in Paddle; neither has `use_multi_tensor`:
    BuildStrategy.fuse_all_optimizer_ops groups updates.
    Paddle page: paddle.optimizer.Momentum.
    """

    operator = "momentum"
    _velocity_acc_str = "velocity"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        momentum: float = 0.9,
        parameters: Any = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        check_required("Momentum", learning_rate=learning_rate, momentum=momentum)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._momentum = float(momentum)
        self._use_nesterov = bool(use_nesterov)
        self._multi_precision = bool(multi_precision)
        self._rescale_grad = float(rescale_grad)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {"Velocity": self.accumulator("velocity", parameter)}

    def updates_decay(self, regularizer: WeightDecayRegularizer) -> bool:
        return isinstance(regularizer, L2Decay)

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        made: dict[str, Any] = {
            "mu": float(self.option(parameter, "momentum", self._momentum)),
            "use_nesterov": bool(self.option(parameter, "use_nesterov", self._use_nesterov)),
            "rescale_grad": float(self.option(parameter, "rescale_grad", self._rescale_grad)),
        }
        regularizer = self._regularizer(parameter)
        if regularizer is not None and self.updates_decay(regularizer):
            made["regularization_method"] = "l2_decay"
            made["regularization_coeff"] = regularizer._coeff
        return made


class LarsMomentum(Optimizer):
    """Momentum with lr * lars_coeff * |p| / (|g| + lars_weight_decay * |p|) as a layer's rate.

    Parameters whose name contains one of `exclude_from_weight_decay` are not decayed. The state is
    `<parameter>_velocity_0`. Paddle page: paddle.incubate.optimizer.LarsMomentumOptimizer.
    """

    operator = "lars_momentum"
    _velocity_acc_str = "velocity"

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        exclude_from_weight_decay: Sequence[str] | None = None,
        epsilon: float = 0,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
    ) -> None:
        check_required("LarsMomentum", learning_rate=learning_rate, momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._momentum = float(momentum)
        self._lars_coeff = float(lars_coeff)
        self._lars_weight_decay = float(lars_weight_decay)
        self._exclude = list(exclude_from_weight_decay or ())
        self._epsilon = float(epsilon)
        self._multi_precision = bool(multi_precision)
        self._rescale_grad = float(rescale_grad)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {"Velocity": self.accumulator("velocity", parameter)}

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        excluded = any(name in parameter.name for name in self._exclude)
        return {
            "mu": self._momentum,
            "lars_coeff": self._lars_coeff,
            "lars_weight_decay": [0.0 if excluded else self._lars_weight_decay],
            "epsilon": self._epsilon,
            "rescale_grad": self._rescale_grad,
        }
