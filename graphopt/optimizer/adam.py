"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.ir.program import Block, Operator, Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2015). Paddle page: paddle.optimizer.Adam.

    The state is `<parameter>_moment1_0`, `_moment2_0`, and the powers of the betas. Gradients are
    dense, so `lazy_mode` updates every row. `use_multi_tensor` and `multi_precision` have no effect
    here: BuildStrategy.fuse_all_optimizer_ops groups updates.
    """

    operator = "adam"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        for what, value in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= _number(value, what) < 1:
                raise ValueError(f"Invalid value of {what}, expect {what} in [0,1), got {value}")
        if _number(epsilon, "epsilon") < 0:
            raise ValueError(f"Invalid value of epsilon, expect epsilon >= 0, got {epsilon}")
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon
        self._lazy_mode = bool(lazy_mode)

    def create_accumulators(self, parameter: Parameter) -> None:
        self._state(parameter)

    def _state(self, parameter: Parameter) -> dict[str, Variable]:
        """The accumulators by slot."""
        return {
            "Moment1": self.accumulator("moment1", parameter),
            "Moment2": self.accumulator("moment2", parameter),
            "Beta1Pow": self.accumulator("beta1_pow_acc", parameter, value=self._beta1, shape=[1]),
            "Beta2Pow": self.accumulator("beta2_pow_acc", parameter, value=self._beta2, shape=[1]),
        }

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        state = self._state(parameter)
        slots = {"Param": parameter, "Grad": grad, "LearningRate": rate, **state}
        outs = {"ParamOut": parameter, **{f"{slot}Out": value for slot, value in state.items()}}
        attrs = {
            "beta1": self._beta1,
            "beta2": self._beta2,
            "epsilon": self._epsilon,
            "lazy_mode": self._lazy_mode,
            **self.extra_attrs(parameter),
        }
        return self.append(block, self.operator, slots, outs, **attrs)

    def extra_attrs(self, parameter: Parameter) -> dict[str, Any]:
        """The attributes that the operator has beyond Adam's."""
        return {}


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"the argument '{name}' must be a number, found {type(value).__name__}")
    return float(value)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Parameters shrink by lr * weight_decay before the update, those for which
    `apply_decay_param_fun(name)` holds (all by default). `lr_ratio(parameter)` multiplies the
    learning rate. Paddle page: paddle.optimizer.AdamW.
    """

    operator = "adamw"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Any = None,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Parameter], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            beta1,
            beta2,
            epsilon,
            parameters,
            None,
            grad_clip,
            lazy_mode,
            name=name,
        )
        self._coeff = _number(weight_decay, "weight_decay")
        self._lr_ratio = lr_ratio
        self._apply_decay_param_fun = apply_decay_param_fun

    def extra_attrs(self, parameter: Parameter) -> dict[str, Any]:
        applies = self._apply_decay_param_fun
        return {
            "coeff": self._coeff,
            "with_decay": applies is None or bool(applies(parameter.name)),
            "lr_ratio": 1.0 if self._lr_ratio is None else float(self._lr_ratio(parameter)),
        }
