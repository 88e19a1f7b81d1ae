"""What optimizers share: the backward pass, clipping, regularisation, state and learning rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.backward import append_backward
from graphopt.errors import UnsupportedError
from graphopt.framework import current_op_attrs, op_attrs
from graphopt.initializer.fill import Constant
from graphopt.ir import unique_name
from graphopt.ir.dtypes import DType
from graphopt.ir.program import (
    Block,
    Operator,
    OpRole,
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
)
from graphopt.nn.clip import ClipGradBase
from graphopt.optimizer.lr.base import LRScheduler
from graphopt.regularizer import L2Decay, WeightDecayRegularizer
from graphopt.runtime import global_scope
from graphopt.tensor.math import scale

Pairs = list[tuple[Parameter, Variable]]


class Optimizer(ABC):
    """Base of the optimizers (Paddle page: paddle.optimizer.Optimizer).

    `learning_rate` is a number or an LRScheduler. `parameters` limits what is updated; by default
    every trainable parameter is. A number as `weight_decay` means L2Decay; a ParamAttr's own
    regularizer replaces it. `grad_clip` comes before weight decay.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Sequence[Parameter] | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        kind = type(self).__name__
        if isinstance(learning_rate, bool) or not isinstance(
            learning_rate, (int, float, LRScheduler)
        ):
            raise TypeError(
                f"{kind}(): learning rate should be float or LRScheduler, got "
                f"{type(learning_rate).__name__}"
            )
        if grad_clip is not None and not isinstance(grad_clip, ClipGradBase):
            raise TypeError(f"{kind}(): 'grad_clip' should be an instance of ClipGradBase")
        self._learning_rate = learning_rate
        self._parameters = _parameter_list(parameters, kind)
        self.regularization = _regularizer(weight_decay, kind)
        self._grad_clip = grad_clip
        self._name = name
        self._learning_rates: dict[int, Variable] = {}
        self._accumulators: dict[tuple[int, str, str], Variable] = {}

    # -- the steps of minimize -----------------------------------------------------------------

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward pass and the updates to the loss's program.

        Returns the update operators and the (parameter, gradient) pairs before clipping.
        """
        params_grads = self.backward(loss, startup_program, parameters, no_grad_set)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Append the backward pass; (parameter, gradient) pairs in the order of creation."""
        if not isinstance(loss, Variable):
            raise TypeError(f"'loss' should be a Variable, found {type(loss).__name__}")
        with program_guard(loss.block.program, startup_program):
            chosen = parameters if parameters is not None else self._parameters
            return append_backward(loss, chosen, no_grad_set, callbacks)

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: Pairs
    ) -> list[Operator]:
        """As `apply_gradients`, in the program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """Append clipping, weight decay and updates, by parameter name; the update operators."""
        program = default_main_program()
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        if not pairs:
            raise ValueError(
                "there is nothing to update: the loss depends on no trainable parameter"
            )
        with program.role(OpRole.OPTIMIZE):
            clipped = self._grad_clip(list(pairs)) if self._grad_clip is not None else pairs
            decayed = [(p, self._decayed(p, g)) for p, g in clipped if g is not None]
            return self._updates(program.global_block(), decayed)

    def _decayed(self, parameter: Parameter, grad: Variable) -> Variable:
        """The gradient with the regularizer's term added in place."""
        regularizer = parameter.regularizer or self.regularization
        if regularizer is None:
            return grad
        with op_attrs(op_role_var=[parameter.name, grad.name]):
            inputs = {"X": [grad, regularizer.term(parameter)]}
            block = default_main_program().current_block()
            block.append_op("sum", inputs, {"Out": grad}, current_op_attrs())
        return grad

    def _updates(self, block: Block, pairs: Pairs) -> list[Operator]:
        rate = self._learning_rate_variable(pairs[0][1].dtype)
        for parameter, _ in pairs:
            self.create_accumulators(parameter)
        made: list[Operator] = []
        for parameter, grad in pairs:
            with op_attrs(op_role_var=[parameter.name, grad.name]):
                own_rate = self._parameter_rate(rate, parameter)
                made.append(self.append_update(block, parameter, grad, own_rate))
        return made

    # -- what an optimizer defines -------------------------------------------------------------

    def create_accumulators(self, parameter: Parameter) -> None:
        """Make the state that this optimizer keeps for a parameter (see `accumulator`); none."""
        return

    @abstractmethod
    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        """Append the operator that updates one parameter."""

    def accumulator(
        self,
        kind: str,
        parameter: Parameter,
        *,
        value: float = 0.0,
        shape: Sequence[int] | None = None,
    ) -> Variable:
        """The state `<parameter>_<kind>_0`, made with this first value when it is new."""
        program = default_main_program()
        key = (program.serial, kind, parameter.name)
        if key not in self._accumulators:
            prefix = f"{self._name}_{kind}" if self._name else kind
            name = unique_name.generate(f"{parameter.name}_{prefix}")
            sizes = list(parameter.shape if shape is None else shape)
            self._accumulators[key] = _persistable(name, sizes, parameter.dtype, value)
        return self._accumulators[key]

    def append(self, block: Block, type: str, slots: Any, outs: Any, **attrs: Any) -> Operator:
        """Append an update operator; numbers become what Paddle's format keeps of them, float32."""
        rounded = {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in attrs.items()}
        return block.append_op(type, slots, outs, {**current_op_attrs(), **rounded})

    # -- the learning rate ---------------------------------------------------------------------

    def _learning_rate_variable(self, dtype: DType) -> Variable:
        """The variable `learning_rate_<n>` of this program; schedules write it before each run."""
        program = default_main_program()
        found = self._learning_rates.get(program.serial)
        if found is None:
            name = unique_name.generate("learning_rate")
            found = _persistable(name, [1], dtype, self.get_lr())
            self._learning_rates[program.serial] = found
            if isinstance(self._learning_rate, LRScheduler):
                program.lr_schedulers[name] = self._learning_rate
        return found

    def _parameter_rate(self, rate: Variable, parameter: Parameter) -> Variable:
        """The rate times the parameter's own factor."""
        factor = float(parameter.optimize_attr.get("learning_rate", 1.0))
        if factor == 1.0:
            return rate
        with default_main_program().role(OpRole.LR_SCHEDULE | OpRole.OPTIMIZE):
            return scale(rate, factor)

    def get_lr(self) -> float:
        """The learning rate that the next run uses."""
        if isinstance(self._learning_rate, LRScheduler):
            return float(self._learning_rate())
        return float(self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Set a constant learning rate, also where the programs built so far read it.

        Raises RuntimeError when a scheduler decides it, TypeError unless it is a number.
        """
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"set_lr(): 'value' must be a number, found {type(value).__name__}")
        if isinstance(self._learning_rate, LRScheduler):
            raise RuntimeError(
                "optimizer's learning rate can't be LRScheduler when invoke this API, because "
                "the schedule would overwrite it"
            )
        self._learning_rate = float(value)
        for variable in self._learning_rates.values():
            slot = global_scope().find_var(variable.name)
            if slot is not None:
                slot.get_tensor().set(np.full(variable.shape, value, variable.dtype.numpy))

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Let a scheduler decide the learning rate from now on."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError("set_lr_scheduler(): 'scheduler' must be an LRScheduler")
        self._learning_rate = scheduler
        for variable in self._learning_rates.values():
            variable.block.program.lr_schedulers[variable.name] = scheduler

    # -- dynamic mode --------------------------------------------------------------------------

    def step(self) -> None:
        """Raise UnsupportedError: updates are operators of the program here."""
        raise UnsupportedError("Optimizer.step() is for dynamic mode; use minimize(loss)")

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Raise UnsupportedError: gradients do not outlive a run here."""
        raise UnsupportedError("Optimizer.clear_grad() is for dynamic mode; leave it out")


def _persistable(name: str, shape: Sequence[int], dtype: DType, value: float) -> Variable:
    """A state variable of the main program that the startup program sets."""
    flags = {"persistable": True, "stop_gradient": True}
    made = default_main_program().global_block().create_var(name, shape, dtype, **flags)
    block = default_startup_program().global_block()
    Constant(value)(block.create_var(name, shape, dtype, **flags), block)
    return made


def _parameter_list(parameters: Any, kind: str) -> list[Parameter] | None:
    if parameters is None:
        return None
    if isinstance(parameters, (Variable, str)):
        raise TypeError(f"{kind}(): 'parameters' must be a list of parameters")
    found = list(parameters)
    if any(isinstance(item, dict) for item in found):
        raise UnsupportedError(
            f"{kind}(): parameter groups are for dynamic mode; use ParamAttr(learning_rate=…, "
            "regularizer=…) on the parameters"
        )
    return found


def _regularizer(weight_decay: Any, kind: str) -> WeightDecayRegularizer | None:
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, (int, float)) and not isinstance(weight_decay, bool):
        return L2Decay(weight_decay)
    raise TypeError(
        f"{kind}(): weight_decay should be a float or a regularizer, got "
        f"{type(weight_decay).__name__}"
    )
