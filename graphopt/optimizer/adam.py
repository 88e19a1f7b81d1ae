"""Adam and AdamW, and the base that they share with their relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer, check_range, check_required


class Moments(Optimizer):
    """Base with two betas and an epsilon, which groups may override."""

    def __init__(
        self,
        learning_rate: Any,
        beta1: float,
        beta2: float,
        epsilon: float,
        parameters: Any,
        weight_decay: Any,
        grad_clip: Any,
        name: str | None,
    ) -> None:
        kind = type(self).__name__
        check_required(kind, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        fractions = check_range(kind, beta1=beta1, beta2=beta2, epsilon=epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._beta1, self._beta2, self._epsilon = fractions

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        return {
            "beta1": self._beta(1, parameter),
            "beta2": self._beta(2, parameter),
            "epsilon": float(self.option(parameter, "epsilon", self._epsilon)),
        }

    def _beta(self, number: int, parameter: Parameter) -> float:
        """Get one of the two betas, from the parameter's group or the optimizer."""
        name = f"beta{number}"
        return float(self.option(parameter, name, getattr(self, f"_{name}")))

    def _power(self, number: int, parameter: Parameter, **options: Any) -> Variable:
        """Get the accumulator of shape [1] that holds a power of a beta."""
        value, kind = self._beta(number, parameter), f"beta{number}_pow_acc"
        return self.accumulator(kind, parameter, value=value, shape=[1], **options)


class Adam(Moments):
    """Adaptive moments (Kingma and Ba, 2015). Paddle page: paddle.optimizer.Adam.

    The state is `<parameter>_moment1_0`, `_moment2_0`, the powers of the betas and, with
    `amsgrad`, `_moment2_max_0`. With `multi_precision` a float16 or bfloat16 parameter is a copy
    of a float32 master weight. With `lazy_mode` the sparse gradient of an embedding (`sparse`)
    moves only the rows that were looked up, and their moments; with `amsgrad`, and for dense
    gradients, it has no effect.
    `use_multi_tensor` has no effect here: BuildStrategy.fuse_all_optimizer_ops groups updates.
    """

    operator = "adam"
    _moment1_acc_str, _moment2_acc_str = "moment1", "moment2"
    _beta1_pow_acc_str, _beta2_pow_acc_str = "beta1_pow_acc", "beta2_pow_acc"
    skips = True

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
        amsgrad: bool = False,
    ) -> None:
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip, name
        )
        self._lazy_mode = bool(lazy_mode)
        self._multi_precision = bool(multi_precision)
        self._amsgrad = bool(amsgrad)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        found = {
            "Moment1": self.accumulator("moment1", parameter),
            "Moment2": self.accumulator("moment2", parameter),
        }
        if self._amsgrad:
            found["Moment2Max"] = self.accumulator("moment2_max", parameter)
        found["Beta1Pow"] = self._power(1, parameter)
        found["Beta2Pow"] = self._power(2, parameter)
        return found

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        lazy_mode = bool(self.option(parameter, "lazy_mode", self._lazy_mode))
        attrs = {**super().attributes(parameter), "lazy_mode": lazy_mode}
        return {**attrs, "amsgrad": True} if self._amsgrad else attrs


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Parameters for which `apply_decay_param_fun(name)` holds (all by default) shrink by lr *
    weight_decay before the update. `lr_ratio(parameter)` multiplies the learning rate. Paddle page:
    paddle.optimizer.AdamW.
    """

    operator = "adamw"
    decoupled_decay = True

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
        amsgrad: bool = False,
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
            multi_precision,
            amsgrad=amsgrad,
            name=name,
        )
        if lr_ratio is not None and not callable(lr_ratio):
            raise TypeError("AdamW(): 'lr_ratio' must be a function of the parameter")
        self._coeff = arguments.number(weight_decay, "weight_decay", "AdamW")
        self._lr_ratio = lr_ratio
        self._apply_decay_param_fun = apply_decay_param_fun

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        applies = self.option(parameter, "apply_decay_param_fun", self._apply_decay_param_fun)
        ratio = self.option(parameter, "lr_ratio", self._lr_ratio)
        return {
            **super().attributes(parameter),
            "coeff": arguments.number(
                self.option(parameter, "weight_decay", self._coeff), "weight_decay", "AdamW"
            ),
            "with_decay": applies is None or bool(applies(parameter.name)),
            "lr_ratio": 1.0 if ratio is None else float(ratio(parameter)),
        }
