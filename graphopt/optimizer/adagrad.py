"""Optimizers that divide by the root of summed or averaged squares of gradients."""

from __future__ import annotations

from typing import Any

from graphopt.ir.program import Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer, check_required


class Adagrad(Optimizer):
    """m += g²; p -= lr * g / (sqrt(m) + epsilon) (Paddle page: paddle.optimizer.Adagrad).

    The state is `<parameter>_moment_0`, which starts as `initial_accumulator_value`.
    """

    operator = "adagrad"
    _moment_acc_str = "moment"

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1.0e-6,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
        multi_precision: bool = False,
    ) -> None:
        check_required("Adagrad", learning_rate=learning_rate, epsilon=epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon = float(epsilon)
        self.initial_accumulator_value = float(initial_accumulator_value)
        self._multi_precision = bool(multi_precision)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        start = self.option(parameter, "initial_accumulator_value", self.initial_accumulator_value)
        return {"Moment": self.accumulator("moment", parameter, value=start, widen=False)}

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        return {"epsilon": float(self.option(parameter, "epsilon", self._epsilon))}


class DecayedAdagrad(Optimizer):
    """m = decay * m + (1 - decay) * g²; p -= lr * g / (sqrt(m) + epsilon).

    The state is `<parameter>_moment_0`. Paddle page: paddle.fluid.optimizer.DecayedAdagrad.
    """

    operator = "decayed_adagrad"
    _moment_acc_str = "moment"

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.95,
        epsilon: float = 1.0e-6,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        check_required("DecayedAdagrad", learning_rate=learning_rate, decay=decay, epsilon=epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._decay, self._epsilon = float(decay), float(epsilon)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {"Moment": self.accumulator("moment", parameter)}

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        return {"decay": self._decay, "epsilon": self._epsilon}


class Adadelta(Optimizer):
    """Steps in units of the root mean square of earlier steps (Zeiler, 2012).

    The state is `<parameter>__avg_squared_grad_0` and `<parameter>__avg_squared_update_0`. Paddle
    page: paddle.optimizer.Adadelta.
    """

    operator = "adadelta"
    _avg_squared_grad_acc_str = "_avg_squared_grad"
    _avg_squared_update_acc_str = "_avg_squared_update"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        epsilon: float = 1.0e-6,
        rho: float = 0.95,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        check_required("Adadelta", learning_rate=learning_rate, epsilon=epsilon, rho=rho)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self._rho = float(epsilon), float(rho)
        self._multi_precision = bool(multi_precision)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {
            "AvgSquaredGrad": self.accumulator("_avg_squared_grad", parameter, widen=False),
            "AvgSquaredUpdate": self.accumulator("_avg_squared_update", parameter, widen=False),
        }

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        return {
            "epsilon": float(self.option(parameter, "epsilon", self._epsilon)),
            "rho": float(self.option(parameter, "rho", self._rho)),
        }


class RMSProp(Optimizer):
    """v = momentum * v + lr * g / sqrt(E[g²] + epsilon); p -= v.

    Means decay by `rho`; `centered` subtracts E[g]² from E[g²]. The state is
    `<parameter>_momentum_0`, `_mean_square_0` and `_mean_grad_0`. Raises ValueError for negative
    epsilon, momentum or rho. Paddle page: paddle.optimizer.RMSProp.
    """

    operator = "rmsprop"
    _momentum_acc_str, _mean_square_acc_str = "momentum", "mean_square"
    _mean_grad_acc_str = "mean_grad"

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1.0e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        given = {"rho": rho, "epsilon": epsilon, "momentum": momentum}
        check_required("RMSProp", learning_rate=learning_rate, **given)
        for what, value in given.items():
            if not value >= 0:
                raise ValueError(
                    f"RMSProp(): Invalid value of {what}, expect {what} >= 0., got {value}"
                )
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._rho, self._epsilon, self._momentum = float(rho), float(epsilon), float(momentum)
        self._centered = bool(centered)
        self._multi_precision = bool(multi_precision)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {
            "Moment": self.accumulator("momentum", parameter, widen=False),
            "MeanSquare": self.accumulator("mean_square", parameter, widen=False),
            "MeanGrad": self.accumulator("mean_grad", parameter, widen=False),
        }

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        return {
            "epsilon": float(self.option(parameter, "epsilon", self._epsilon)),
            "decay": float(self.option(parameter, "rho", self._rho)),
            "momentum": float(self.option(parameter, "momentum", self._momentum)),
            "centered": bool(self.option(parameter, "centered", self._centered)),
        }
