"""Base of optimizers: backward pass, clipping, regularization, state and learning rate."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from graphopt.display.facts import WithFacts
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.backward import append_backward
from graphopt.frontend.mode import current_op_attrs, never_static, op_attrs
from graphopt.frontend.regularizers import WeightDecayRegularizer
from graphopt.ir.dtypes import DType
from graphopt.ir.program import (
    Block,
    Operator,
    OpRole,
    Parameter,
    Program,
    Variable,
    default_main_program,
    program_guard,
    undo,
    unique_name,
)
from graphopt.ir.program.location import caller_level
from graphopt.nn.clip import ClipGradBase, noted_clip
from graphopt.optimizer.decay import with_penalties, with_penalty
from graphopt.optimizer.groups import Groups, as_regularizer, check_kind
from graphopt.optimizer.lr.base import LRScheduler
from graphopt.optimizer.rates import LearningRateMap
from graphopt.optimizer.state import State, is_half, persistable
from graphopt.runtime.state.scope import global_scope
from graphopt.tensor.math import scale

Pairs = list[tuple[Parameter, Variable]]


class Optimizer(WithFacts):
    """Base of the optimizers (Paddle page: paddle.optimizer.Optimizer).

    `learning_rate` is a number, an LRScheduler, or a Variable that operators of the program
    compute. `parameters` selects the parameters to update (by default every trainable one); a list
    of dicts makes groups with options of their own: {"params": […], "learning_rate": factor,
    "weight_decay": …, "grad_clip": …}. A number as `weight_decay` means L2Decay; a ParamAttr's
    regularizer replaces it. `grad_clip` comes before weight decay.

    A subclass defines the `operator` that updates a parameter, with its `state` and `attributes`.
    """

    operator: ClassVar[str]
    decoupled_decay: ClassVar[bool] = False
    """True if a group's weight_decay is an attribute of the update, not a regularizer."""
    lower_slots: ClassVar[bool] = False
    """True if the operator's slots are named `param`, not `Param`."""
    skips: ClassVar[bool] = False
    """True if the operator can skip a step; `skip_update` is then the condition."""

    skip_update: Variable | None = None

    def __init__(
        self,
        learning_rate: float | LRScheduler | Variable,
        parameters: Sequence[Parameter] | Sequence[Mapping[str, Any]] | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        kind = type(self).__name__
        check_kind(learning_rate, grad_clip, kind)
        self._learning_rate = learning_rate
        self.regularization = as_regularizer(weight_decay, kind)
        self._grad_clip = grad_clip
        self._name = name
        self._multi_precision = False
        self._learning_rates: dict[int, Variable] = {}
        self._dtype: DType | None = None
        self._groups = Groups(parameters, kind, decoupled=self.decoupled_decay)
        self._parameter_list = self._groups.parameters
        self._state = State(kind, name)

    @property
    def type(self) -> str:
        """The type of the operator that updates a parameter."""
        return self.operator

    def _facts(self) -> Mapping[str, str]:
        """Collect the learning rate, and the arguments that differ from their defaults."""
        rate = self._learning_rate
        found = {"learning_rate": rate.name if isinstance(rate, Variable) else repr(rate)}
        if self._parameter_list:
            found["parameters"] = str(len(self._parameter_list))
        if self.regularization is not None:
            found["weight_decay"] = repr(self.regularization)
        if self._grad_clip is not None:
            found["grad_clip"] = type(self._grad_clip).__name__
        for name, argument in inspect.signature(type(self).__init__).parameters.items():
            decoupled = name == "weight_decay" and self.decoupled_decay
            value = vars(self).get("_coeff" if decoupled else f"_{name}")
            if isinstance(value, (bool, int, float)) and name not in found:
                found |= {name: repr(value)} if value != argument.default else {}
        return found

    # -- the steps of minimize -----------------------------------------------------------------

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward pass and the updates to the loss's program.

        Returns the operators that update and the (parameter, gradient) pairs before clipping.
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
        """Append the backward pass; return (parameter, gradient) pairs in the order of creation.

        Raises ProgramError (ValueError) unless the loss is known to have one element.
        """
        if not isinstance(loss, Variable):
            raise TypeError(f"'loss' should be a Variable, found {type(loss).__name__}")
        if any(dim != 1 for dim in loss.shape):
            raise ProgramError(
                f"{type(self).__name__}.minimize(): the number of elements of loss should be 1, "
                f"but '{loss.name}' has shape {list(loss.shape)}; reduce it first, e.g. with "
                "paddle.mean"
            )
        self._dtype = self._dtype or loss.dtype
        with program_guard(loss.block.program, startup_program):
            chosen = parameters or self._parameter_list
            return append_backward(loss, chosen, no_grad_set, callbacks)

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: Pairs
    ) -> list[Operator]:
        """Call `apply_gradients` in the program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    _apply_optimize = apply_optimize

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable]]) -> list[Operator]:
        """Append clipping, weight decay and updates to the program of the parameters, by name.

        Returns the operators that update, with the operators that prepare their learning rates.
        Warns when there is no parameter to update.
        """
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        if not pairs:
            warnings.warn(
                "there is nothing to update: the loss depends on no trainable parameter",
                stacklevel=caller_level(),
            )
            # as in Paddle, a schedule gets its variable nevertheless
            self._learning_rate_variable(self._dtype or DType("float32"))
            return []
        program = pairs[0][0].block.program
        with program_guard(program), program.role(OpRole.OPTIMIZE):
            clipped = self._groups.clip(pairs, self._grad_clip or noted_clip(pairs))
            decayed = [(p, self._add_decay(p, g)) for p, g in clipped if g is not None]
            return self._updates(program.current_block(), decayed)

    def append_regularization_ops(
        self, parameters_and_grads: Pairs, regularization: WeightDecayRegularizer | None = None
    ) -> Pairs:
        """Add the terms of each parameter's regularizer, or else of `regularization`, to its
        gradient.

        For scripts that write the steps of `apply_gradients` themselves.
        """
        return with_penalties(parameters_and_grads, regularization)

    def _add_decay(self, parameter: Parameter, grad: Variable) -> Variable:
        """Add the regularizer's term to a gradient, in place or, if sparse, in a new variable."""
        regularizer = self._regularizer(parameter)
        if regularizer is not None and self.updates_decay(regularizer):
            return grad
        return with_penalty(parameter, grad, regularizer)

    def _regularizer(self, parameter: Parameter) -> WeightDecayRegularizer | None:
        # programs saved without training information have plain variables as parameters
        return getattr(parameter, "regularizer", None) or self.regularization

    def _updates(self, block: Block, pairs: Pairs) -> list[Operator]:
        start = len(block.ops)
        rate = self._learning_rate_variable(self._dtype or pairs[0][1].dtype)
        for parameter, _ in pairs:
            if self._multi_precision and is_half(parameter.dtype):
                self._state.make_master(parameter)
            elif is_half(parameter.dtype):
                self._state.warn_half()
            self.create_accumulators(parameter)
        for parameter, grad in pairs:
            with op_attrs(op_role_var=[parameter.name, grad.name]):
                own_rate = self._parameter_rate(rate, parameter)
                self.append_update(block, parameter, grad, own_rate)
        self.finish_updates(block, pairs)
        return block.ops[start:]

    # -- for subclasses to override ------------------------------------------------------------

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        """Get the state that a parameter's update reads and writes, by slot (`accumulator`)."""
        return {}

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        """Get the attributes of the operator that updates a parameter."""
        return {}

    def updates_decay(self, regularizer: WeightDecayRegularizer) -> bool:
        """True where the operator that updates also applies this regularizer."""
        return False

    def create_accumulators(self, parameter: Parameter) -> None:
        """Create the state of a parameter, which the startup program initializes."""
        self.state(parameter)

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        """Append the operator that updates one parameter."""
        state = self.state(parameter)
        names = ("param", "grad", "learning_rate") if self.lower_slots else _UPPER
        slots = dict(zip(names, (parameter, grad, rate), strict=True)) | state
        if self.skips and self.skip_update is not None:
            slots["SkipUpdate"] = self.skip_update
        suffix = "_out" if self.lower_slots else "Out"
        outs = {f"{slot}{suffix}": value for slot, value in state.items()}
        outs[f"{names[0]}{suffix}"] = parameter
        return self.append(block, self.operator, slots, outs, **self.attributes(parameter))

    def finish_updates(self, block: Block, pairs: Pairs) -> None:
        """Append the operators that follow all updates; none by default."""
        return

    # -- for subclasses to call ----------------------------------------------------------------

    def accumulator(
        self,
        kind: str,
        parameter: Parameter,
        *,
        value: float = 0.0,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        widen: bool = True,
    ) -> Variable:
        """Get the state `<parameter>_<kind>_0`, created with initial `value` when it is new.

        It belongs to the master weight where the parameter has one. With `widen` the state of a
        half-precision parameter is float32; callers pass False for state that is half precision in
        Paddle.
        """
        return self._state.accumulator(kind, parameter, value, shape, dtype, widen)

    def append(self, block: Block, type: str, slots: Any, outs: Any, **attrs: Any) -> Operator:
        """Append an update operator; numbers are rounded to float32, as in Paddle's format.

        Where `slots` has a parameter with a master weight, that is updated with it.
        """
        parameter = slots.get("Param", slots.get("param"))
        master = self._state.master(parameter)
        if master is not None:
            slot = "master_param" if self.lower_slots else "MasterParam"
            out = "master_param_out" if self.lower_slots else "MasterParamOut"
            slots, outs = {**slots, slot: master}, {**outs, out: master}
            attrs["multi_precision"] = True
        rounded = {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in attrs.items()}
        return block.append_op(type, slots, outs, {**current_op_attrs(), **rounded})

    def use_master_weights(self) -> None:
        """Give half-precision parameters float32 master weights, as with `multi_precision`."""
        self._multi_precision = True

    def master_weight(self, parameter: Parameter) -> Variable | None:
        """Get the master weight of a parameter; None without one."""
        return self._state.master(parameter)

    def option(self, parameter: Parameter, name: str, default: Any) -> Any:
        """Get an option of the parameter's group, or the optimizer's own value."""
        return self._groups.option(parameter, name, default)

    # -- the learning rate ---------------------------------------------------------------------

    def _learning_rate_variable(self, dtype: DType) -> Variable:
        """Get the program's variable `learning_rate_<n>`; schedules write it before each run."""
        if isinstance(self._learning_rate, Variable):
            return self._learning_rate
        program = default_main_program()
        found = self._learning_rates.get(program.serial)
        if found is None:
            name = unique_name.generate("learning_rate")
            wide = DType("float32") if is_half(dtype) or not dtype.is_floating else dtype
            shape = [1] if program.is_fluid else []
            found = persistable(name, shape, wide, self.get_lr())
            undo.put(self._learning_rates, program.serial, found)
            if isinstance(self._learning_rate, LRScheduler):
                undo.put(program.lr_schedulers, name, self._learning_rate)
        return found

    def _global_learning_rate(self, program: Program | None = None) -> Variable | None:
        """Get a program's learning rate variable; None before `minimize` creates it."""
        if isinstance(self._learning_rate, Variable):
            return self._learning_rate
        return self._learning_rates.get((program or default_main_program()).serial)

    @property
    def _learning_rate_map(self) -> LearningRateMap:
        """The learning rates by program; `minimize` uses a rate that a script stores here."""
        return LearningRateMap(self._learning_rates)

    def _parameter_rate(self, rate: Variable, parameter: Parameter) -> Variable:
        """Multiply the rate by the parameter's own factor."""
        own = getattr(parameter, "optimize_attr", {}).get("learning_rate", 1.0)
        if isinstance(own, Variable):
            return own
        if float(own) == 1.0:
            return rate
        with default_main_program().role(OpRole.LR_SCHEDULE | OpRole.OPTIMIZE):
            return scale(rate, float(own))

    def get_lr(self) -> float:
        """Return the learning rate that the next run uses.

        Raises UnsupportedError when operators of the program compute it.
        """
        if isinstance(self._learning_rate, LRScheduler):
            return float(self._learning_rate())
        if isinstance(self._learning_rate, Variable):
            raise UnsupportedError(
                f"get_lr(): the program computes the learning rate '{self._learning_rate.name}'; "
                "fetch it"
            )
        return float(self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Set a constant learning rate, also where the programs built so far read it.

        Raises RuntimeError when a scheduler decides it, TypeError unless it is a number.
        """
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(
                f"set_lr(): the type of 'value' must be float, but received {type(value).__name__}"
            )
        if isinstance(self._learning_rate, (LRScheduler, Variable)):
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
            raise TypeError(
                "set_lr_scheduler(): the type of 'scheduler' must be "
                f"LRScheduler, but received {type(scheduler).__name__}"
            )
        self._learning_rate = scheduler
        for variable in self._learning_rates.values():
            variable.block.program.lr_schedulers[variable.name] = scheduler

    # -- saved state ---------------------------------------------------------------------------

    def get_opti_var_name_list(self) -> list[str]:
        """List the names of the state variables in creation order."""
        return [variable.name for variable in self._state.variables()]

    @property
    def _accumulators(self) -> dict[str, dict[str, Variable]]:
        return self._state.by_kind()

    @_accumulators.setter
    def _accumulators(self, value: Mapping[str, Any]) -> None:
        """Forget the state, as scripts do before they minimize in another program."""
        if value:
            raise ValueError("the accumulators of an optimizer can be emptied only")
        self._state.forget()

    def _get_accumulator(self, name: str, param: Parameter) -> Variable:
        return self._state.find(name, param)

    def state_dict(self) -> dict[str, Any]:
        """Read the values of the state in the global scope by name, and the scheduler's state.

        Master weights are under "master_weights". Variables that have no value yet are left out.
        """
        return self._state.values(self._learning_rate)

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Put the result of `state_dict` into the global scope and the scheduler.

        Raises ValueError for a missing variable, a wrong shape or a wrong dtype.
        """
        self._state.load(state_dict, self._learning_rate)

    set_dict = set_state_dict

    # -- dynamic mode --------------------------------------------------------------------------

    def step(self) -> None:
        """Raise UnsupportedError: updates are operators of the program here."""
        raise UnsupportedError(
            f"Optimizer.step() is for dynamic mode; use minimize(loss){never_static()}"
        )

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Raise UnsupportedError: gradients do not outlive a run here."""
        raise UnsupportedError(
            f"Optimizer.clear_grad() is for dynamic mode; leave it out{never_static()}"
        )

    clear_gradients = clear_grad


_UPPER = ("Param", "Grad", "LearningRate")


def check_range(kind: str, **fractions: float) -> list[float]:
    """Check that each fraction is a number in [0, 1), and return them.

    Raises TypeError or ValueError otherwise. `epsilon` may be larger.
    """
    made: list[float] = []
    for name, value in fractions.items():
        found = arguments.number(value, name, kind)
        if name == "epsilon" and found < 0:
            raise ValueError(
                f"{kind}(): Invalid value of epsilon, expect epsilon >= 0, got {value}"
            )
        if name != "epsilon" and not 0 <= found < 1:
            raise ValueError(
                f"{kind}(): Invalid value of {name}, expect {name} in [0,1), got {value}"
            )
        made.append(found)
    return made


def check_required(kind: str, **values: Any) -> None:
    """Raise ValueError for an argument that is None."""
    missing: Iterable[str] = (name for name, value in values.items() if value is None)
    for name in missing:
        raise ValueError(f"{kind}(): {name} is not set")
