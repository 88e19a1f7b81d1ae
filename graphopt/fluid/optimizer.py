"""Optimizers under the names and arguments of 1.8 (paddle.fluid.optimizer).

`parameter_list` and `regularization` are the `parameters` and `weight_decay` of 2.0; the learning
rate may be a Variable from fluid.layers. The classes are created when they are used.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import graphopt.optimizer as modern
from graphopt.errors import UnsupportedError
from graphopt.fluid.regularizer import append_regularization_ops as append_regularization_ops
from graphopt.frontend import lazy
from graphopt.ir.program import Block, Operator, Parameter, Program, Variable
from graphopt.ir.program.location import caller_level
from graphopt.tensor.creation import assign
from graphopt.tensor.math import add, divide, multiply, scale, sqrt, square

_LAST = "parameter_list regularization grad_clip name"
# class of paddle.optimizer -> 1.8's order of arguments
_ARGUMENTS = {
    "SGD": f"learning_rate {_LAST}",
    "Momentum": "learning_rate momentum parameter_list use_nesterov regularization grad_clip name",
    "LarsMomentum": f"learning_rate momentum lars_coeff lars_weight_decay {_LAST}",
    "Adagrad": f"learning_rate epsilon {_LAST} initial_accumulator_value",
    "DecayedAdagrad": f"learning_rate decay epsilon {_LAST}",
    "Adam": f"learning_rate beta1 beta2 epsilon {_LAST} lazy_mode",
    "Adamax": f"learning_rate beta1 beta2 epsilon {_LAST}",
    "Adadelta": f"learning_rate epsilon rho {_LAST}",
    "RMSProp": f"learning_rate rho epsilon momentum centered {_LAST}",
    "Ftrl": f"learning_rate l1 l2 lr_power {_LAST}",
    "Lamb": (
        "learning_rate lamb_weight_decay beta1 beta2 epsilon parameter_list regularization "
        "grad_clip exclude_from_weight_decay_fn name"
    ),
    "Dpsgd": "learning_rate clip batch_size sigma parameter_list",
}
_RENAMED = {"parameter_list": "parameters", "regularization": "weight_decay"}
_WITHOUT_DEFAULT = {
    "SGD", "Momentum", "LarsMomentum", "Adagrad", "DecayedAdagrad", "Adadelta", "RMSProp", "Ftrl"
}  # fmt: skip
Optimizer = modern.Optimizer


@cache
def _make_optimizer_class(name: str) -> type[modern.Optimizer]:
    """Create the class `name` + Optimizer of 1.8 from the class of 2.x."""
    base: Any = getattr(modern, name)
    order = _ARGUMENTS[name].split()

    class Made(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = _bind_arguments(f"{name}Optimizer", order, args, kwargs)
            if name in _WITHOUT_DEFAULT and "learning_rate" not in given:
                raise TypeError(f"{name}Optimizer() needs the argument 'learning_rate'")
            if name == "Ftrl" and "l2" in given:
                given["l2"] *= 0.5  # 1.8 adds this term once, later releases twice
            # incubate's LarsMomentum keeps the names of 1.8
            renamed = {} if name == "LarsMomentum" else _RENAMED
            super().__init__(**{renamed.get(k, k): v for k, v in given.items()})

        def minimize(
            self,
            loss: Variable,
            startup_program: Program | None = None,
            parameter_list: Sequence[Any] | None = None,
            no_grad_set: Any = None,
        ) -> Any:
            return super().minimize(loss, startup_program, parameter_list, no_grad_set)

    if name == "Lamb":
        # 1.8 does not correct the moments' bias
        Made.accumulator = _without_powers(base)
    if name == "Adadelta":
        Made.append_update = _adadelta
    if name == "Momentum":
        # 1.8 adds each regularizer's term to the gradient
        Made.updates_decay = modern.Optimizer.updates_decay
    if name == "Adam":
        Made.attributes = _with_epsilon_of_1_8(base)
    Made.__name__ = Made.__qualname__ = f"{name}Optimizer"
    Made.__doc__ = f"{base.__doc__}\n\nArguments, in the order of 1.8: {', '.join(order)}."
    return Made


def _without_powers(base: Any) -> Any:
    """Wrap `accumulator` to start the powers of the betas at 0, where they stay."""

    def accumulator(self: Any, kind: str, *args: Any, **kwargs: Any) -> Variable:
        if "_pow_" in kind:
            kwargs["value"] = 0.0
        return base.accumulator(self, kind, *args, **kwargs)

    return accumulator


def _with_epsilon_of_1_8(base: Any) -> Any:
    """Wrap `attributes` to leave epsilon uncorrected, unlike the second moment."""

    def attributes(self: Any, parameter: Parameter) -> dict[str, Any]:
        return {**base.attributes(self, parameter), "uncorrected_epsilon": True}

    return attributes


def _adadelta(
    self: Any, block: Block, parameter: Parameter, grad: Variable, rate: Variable
) -> Operator:
    """Append the update of 1.8: without the learning rate, by means that include this step."""
    squares, steps = self.state(parameter).values()
    rho, epsilon = self._rho, self._epsilon
    assign(add(scale(squares, rho), scale(square(grad), 1 - rho)), squares)
    spread = scale(squares, 1.0, epsilon)

    def step() -> Variable:
        return multiply(sqrt(divide(scale(steps, 1.0, epsilon), spread)), grad)

    assign(add(scale(steps, rho), scale(square(step()), 1 - rho)), steps)
    return self.append(
        block, "elementwise_sub", {"X": parameter, "Y": step()}, {"Out": parameter}, axis=-1
    )


def _bind_arguments(
    name: str, order: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Map arguments by name, without None; raise TypeError when they do not fit."""
    if len(args) > len(order):
        raise TypeError(f"{name}() takes {len(order)} arguments, found {len(args)}")
    given = dict(zip(order, args, strict=False))
    for key, value in kwargs.items():
        if key not in order or key in given:
            problem = "got twice" if key in given else "does not know"
            raise TypeError(f"{name}() {problem} the argument '{key}'; it has {', '.join(order)}")
        given[key] = value
    return {key: value for key, value in given.items() if value is not None}


@cache
def _model_average() -> Any:
    """Create ModelAverage with the arguments of 1.8; regularization has no effect, as there."""
    base: Any = import_module("graphopt.optimizer.model_average").ModelAverage

    class ModelAverage(base):
        __doc__ = base.__doc__

        def __init__(
            self,
            average_window_rate: float,
            min_average_window: int = 10000,
            max_average_window: int = 10000,
            regularization: Any = None,
            name: str | None = None,
        ) -> None:
            windows = (min_average_window, max_average_window)
            super().__init__(average_window_rate, None, *windows, name)

    return ModelAverage


@cache
def _compressing_momentum() -> Any:
    """Create Momentum with the arguments of 1.8's DGC, whose compression has no effect."""
    base: Any = _make_optimizer_class("Momentum")

    class DGCMomentumOptimizer(base):
        """Momentum; it warns that gradients are not compressed between devices.

        Raises UnsupportedError for `local_grad_clip_norm`, which clips only compressed gradients.
        """

        def __init__(
            self,
            learning_rate: Any,
            momentum: float,
            rampup_begin_step: int,
            rampup_step: int = 1,
            sparsity: Sequence[float] = (0.999,),
            parameter_list: Any = None,
            use_nesterov: bool = False,
            num_trainers: int | None = None,
            regularization: Any = None,
            grad_clip: Any = None,
            name: str | None = None,
            local_grad_clip_norm: float | None = None,
        ) -> None:
            if local_grad_clip_norm is not None:
                raise UnsupportedError(
                    "DGCMomentumOptimizer(): gradients are not compressed here, so that "
                    "local_grad_clip_norm clips nothing; use grad_clip"
                )
            warnings.warn(
                "DGCMomentumOptimizer(): gradients are not compressed; it is a MomentumOptimizer",
                stacklevel=caller_level(),
            )
            last = (parameter_list, use_nesterov, regularization, grad_clip, name)
            super().__init__(learning_rate, momentum, *last)

    return DGCMomentumOptimizer


def _find(name: str) -> Any:
    """Find the optimizer of this name; raise KeyError if there is none."""
    if name == "ModelAverage":
        return _model_average()
    if name == "DGCMomentumOptimizer":
        return _compressing_momentum()
    short = name.removesuffix("Optimizer")
    if short in _ARGUMENTS and hasattr(modern, short):
        return _make_optimizer_class(short)
    raise KeyError(name)


_ELSEWHERE = {
    "ExponentialMovingAverage": "graphopt.static",
    "GradientMergeOptimizer": "graphopt.static.gradient_merge",
    "LookaheadOptimizer": "graphopt.fluid.lookahead",
    "RecomputeOptimizer": "graphopt.optimizer.recompute",
}
_REFUSED = {
    "PipelineOptimizer": (
        "it cuts a program into parts for several devices",
        "fluid.CompiledProgram(program).with_data_parallel(loss_name)",
    ),
}
lazy.attach(
    globals(),
    {name: (module, name) for name, module in _ELSEWHERE.items()},
    refused=_REFUSED,
    find=_find,
)
