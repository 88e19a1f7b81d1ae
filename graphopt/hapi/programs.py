"""The three programs of a `paddle.Model`: for training, for evaluation, for prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphopt.frontend.first_values import has_value
from graphopt.frontend.nest import as_list
from graphopt.ir.program import (
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
)
from graphopt.metric import Metric
from graphopt.nn.layer.layers import Layer
from graphopt.runtime.executor import Executor
from graphopt.runtime.state.scope import global_scope
from graphopt.static.amp import AutoMixedPrecisionLists, decorate
from graphopt.static.input import data
from graphopt.tensor.math import add_n

TRAIN, EVAL, PREDICT = "train", "eval", "predict"
State = dict[str, Any]


@dataclass(frozen=True)
class ModeProgram:
    """The program of a mode, with its feeds and fetches."""

    program: Program
    inputs: Sequence[Variable]
    labels: Sequence[Variable]
    outputs: Sequence[Variable]
    losses: Sequence[Variable]
    metrics: Sequence[Sequence[Variable]]


@dataclass(frozen=True)
class ModelRecipe:
    """The parts from which the programs of a model are built."""

    network: Layer
    inputs: Sequence[Any]
    labels: Sequence[Any]
    optimizer: Any
    loss: Any
    metrics: Sequence[Metric]
    amp: Mapping[str, Any] | None


class ModelPrograms:
    """The programs of a model, which share the parameters in the global scope."""

    def __init__(self, recipe: ModelRecipe, base: Program, startup: Program) -> None:
        self.recipe, self.optimizer = recipe, recipe.optimizer
        self._base, self._startup = base, startup
        self.by_mode = {mode: self._make_program(mode) for mode in (TRAIN, EVAL, PREDICT)}
        self.executor = Executor()
        self._initialise()

    def _make_program(self, mode: str) -> ModeProgram:
        """Build the program of a mode on a clone of the base program.

        Only training keeps the operators of the base, which compute a learning rate.
        """
        recipe, program = self.recipe, self._base.clone()
        if mode != TRAIN:
            while program.global_block().ops:  # a learning-rate schedule is for training only
                program.global_block()._remove_op(0)
        losses: list[Variable] = []
        metrics: list[list[Variable]] = []
        with program_guard(program, self._startup):
            inputs = [data(spec.name, spec.shape, spec.dtype) for spec in recipe.inputs]
            labels = [data(spec.name, spec.shape, spec.dtype) for spec in recipe.labels]
            outputs = as_list(recipe.network.forward(*inputs))
            if mode != PREDICT and recipe.loss:
                losses = as_list(recipe.loss(*outputs, *labels))
            if mode != PREDICT:
                metrics = [as_list(each.compute(*outputs, *labels)) for each in recipe.metrics]
            if mode == TRAIN and self.optimizer is not None:
                self._minimize(losses)
        if mode != TRAIN:
            program = program.clone(for_test=True)
        return ModeProgram(program, inputs, labels, outputs, losses, metrics)

    def _minimize(self, losses: Sequence[Variable]) -> None:
        """Append the derivative of all losses, and the updates."""
        if self.recipe.amp is not None:
            options = dict(self.recipe.amp)
            lists = options.pop("lists")
            self.optimizer = decorate(
                self.optimizer,
                AutoMixedPrecisionLists(**lists) if lists else None,
                use_pure_fp16=options.pop("level") == "O2",
                use_fp16_guard=options.pop("use_fp16_guard", None),
                **options,
            )
        self.optimizer.minimize(add_n(list(losses)))

    def _initialise(self) -> None:
        """Initialize the variables that have no value."""
        missing = [v for v in self._startup.list_vars() if v.persistable and not has_value(v)]
        if missing:
            self.executor.run(self._startup._prune(missing))
        amp = self.recipe.amp
        if amp is not None and amp["level"] == "O2":
            self.optimizer.amp_init(self.executor.place)

    def run(self, mode: str, inputs: Sequence[Any], labels: Sequence[Any] | None) -> list[Any]:
        """Run a batch; return losses and metric values, or outputs in prediction."""
        made = self.by_mode[mode]
        if len(inputs) != len(made.inputs):
            raise ValueError(
                f"{mode}_batch() takes {len(made.inputs)} inputs "
                f"({', '.join(v.name for v in made.inputs)}), got {len(inputs)}"
            )
        pairs = [*zip(made.inputs, inputs, strict=True)]
        pairs += [*zip(made.labels, labels or (), strict=False)]
        feed = {variable.name: array for variable, array in pairs if array is not None}
        flat = [v for values in made.metrics for v in values]
        fetches = list(made.outputs) if mode == PREDICT else [*made.losses, *flat]
        computed = [v for v in fetches if v.name not in feed]
        found = iter(self.executor.run(made.program, feed=feed, fetch_list=computed))
        return [np.asarray(feed[v.name]) if v.name in feed else next(found) for v in fetches]

    def optimizer_state(self) -> State:
        """Collect the values that training keeps in addition to the network's, by variable name."""
        own = {v.name for v in self.recipe.network.state_dict().values()}
        own |= {v.name for v in self._base.list_vars()}
        kept = [v for v in self.by_mode[TRAIN].program.list_vars() if v.persistable]
        return {v.name: values_of(v) for v in kept if v.name not in own and has_value(v)}

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Write the values of `optimizer_state`; ValueError for a missing one."""
        for name in self.optimizer_state():
            if name in state:
                global_scope().var(name).put(np.asarray(state[name]))
            elif not name.startswith("learning_rate_"):
                raise ValueError(f"variable [{name}] is not in optimizer state file")


def values_of(variable: Variable) -> Any:
    """Read the value of a variable in the global scope."""
    slot = global_scope().find_var(variable.name)
    assert slot is not None
    return slot.numpy()


def current() -> tuple[Program, Program]:
    """Return the default programs, in which a network has created its parameters."""
    return default_main_program(), default_startup_program()
