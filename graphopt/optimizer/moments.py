"""Relatives of Adam: Adamax, NAdam, RAdam, Lamb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.mode import op_attrs
from graphopt.ir.program import Block, Parameter, Variable
from graphopt.optimizer.adam import Moments
from graphopt.optimizer.optimizer import Pairs


class Adamax(Moments):
    """Adam with the largest recent gradient for a second moment (Kingma and Ba, 2015).

    The state is `<parameter>_moment_0`, `_inf_norm_0` and `_beta1_pow_acc_0`. Paddle page:
    paddle.optimizer.Adamax.
    """

    operator = "adamax"
    _moment_acc_str, _inf_norm_acc_str = "moment", "inf_norm"
    _beta1_pow_acc_str = "beta1_pow_acc"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name
        )
        self._multi_precision = bool(multi_precision)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {
            "Moment": self.accumulator("moment", parameter),
            "InfNorm": self.accumulator("inf_norm", parameter),
        }

    def create_accumulators(self, parameter: Parameter) -> None:
        self.state(parameter)
        self._power(1, parameter, widen=False)

    def append(self, block: Block, type: str, slots: Any, outs: Any, **attrs: Any) -> Any:
        if type == self.operator:
            slots = {**slots, "Beta1Pow": self._power(1, slots["Param"], widen=False)}
        return super().append(block, type, slots, outs, **attrs)

    def finish_updates(self, block: Block, pairs: Pairs) -> None:
        """Append an operator for each parameter that multiplies its power of beta1 by beta1."""
        for parameter, grad in pairs:
            beta1, power = self._beta(1, parameter), self._power(1, parameter, widen=False)
            with op_attrs(op_role_var=[parameter.name, grad.name]):
                self.append(block, "scale", {"X": power}, {"Out": power}, scale=beta1)


class NAdam(Moments):
    """Adam with Nesterov's momentum (Dozat, 2016). Paddle page: paddle.optimizer.NAdam.

    The state is `<parameter>_moment1_0`, `_moment2_0`, `_momentum_decay_pow_0`, `_beta2_pow_0`
    and `_mu_product_0`. Raises ValueError for a negative `momentum_decay`.
    """

    operator = "nadam"
    lower_slots = True

    def __init__(
        self,
        learning_rate: Any = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1.0e-8,
        momentum_decay: float = 0.004,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        _check_rate(learning_rate, "NAdam")
        if arguments.number(momentum_decay, "momentum_decay", "NAdam") < 0:
            raise ValueError(
                f"NAdam(): Invalid momentum_decay value: {momentum_decay}, expect "
                "momentum_decay >= 0."
            )
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name
        )
        self._momentum_decay = float(momentum_decay)
        self._multi_precision = bool(multi_precision)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        ones = ("momentum_decay_pow", "beta2_pow", "mu_product")
        found = {kind: self.accumulator(kind, parameter, value=1.0) for kind in ones}
        moments = ("moment1", "moment2")
        return found | {kind: self.accumulator(kind, parameter) for kind in moments}

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        decay = float(self.option(parameter, "momentum_decay", self._momentum_decay))
        return {**super().attributes(parameter), "momentum_decay": decay}


class RAdam(Moments):
    """Adam that waits until its second moment is well known (Liu and others, 2020).

    The state is `<parameter>_moment1_0`, `_moment2_0`, `_beta1_pow_0`, `_beta2_pow_0` and
    `_rho_0`. Paddle page: paddle.optimizer.RAdam.
    """

    operator = "radam"
    lower_slots = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1.0e-8,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        _check_rate(learning_rate, "RAdam")
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name
        )
        self._multi_precision = bool(multi_precision)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        ones = ("beta1_pow", "beta2_pow", "rho")
        found = {kind: self.accumulator(kind, parameter, value=1.0) for kind in ones}
        moments = ("moment1", "moment2")
        return found | {kind: self.accumulator(kind, parameter) for kind in moments}


class Lamb(Moments):
    """Adam's step, scaled to the length of each parameter (You and others, 2020).

    `lamb_weight_decay` times the parameter is part of the step, unless
    `exclude_from_weight_decay_fn(parameter)` holds. Without decay the step is scaled only with
    `always_adapt`. The state has the variables of Adam. Paddle page: paddle.optimizer.Lamb.
    """

    operator = "lamb"
    _moment1_acc_str, _moment2_acc_str = "moment1", "moment2"
    _beta1_pow_acc_str, _beta2_pow_acc_str = "beta1_pow_acc", "beta2_pow_acc"
    skips = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameters: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, name)
        if exclude_from_weight_decay_fn is not None and not callable(exclude_from_weight_decay_fn):
            raise TypeError("Lamb(): 'exclude_from_weight_decay_fn' must be a function")
        self._lamb_weight_decay = arguments.number(lamb_weight_decay, "lamb_weight_decay", "Lamb")
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn
        self._multi_precision = bool(multi_precision)
        self.always_adapt = bool(always_adapt)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {
            "Moment1": self.accumulator("moment1", parameter),
            "Moment2": self.accumulator("moment2", parameter),
            "Beta1Pow": self._power(1, parameter),
            "Beta2Pow": self._power(2, parameter),
        }

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        exclude = self.option(
            parameter, "exclude_from_weight_decay_fn", self._exclude_from_weight_decay_fn
        )
        decay = float(self.option(parameter, "lamb_weight_decay", self._lamb_weight_decay))
        excluded = exclude is not None and bool(exclude(parameter))
        return {
            **super().attributes(parameter),
            "weight_decay": 0.0 if excluded else decay,
            "always_adapt": self.always_adapt,
        }


def _check_rate(learning_rate: Any, kind: str) -> None:
    if isinstance(learning_rate, (int, float)) and not learning_rate >= 0:
        raise ValueError(
            f"{kind}(): Invalid learning rate: {learning_rate}, expect learning_rate >= 0."
        )
