"""ModelAverage: the mean of the parameters over the last steps, for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.mode import require_static
from graphopt.ir.program import (
    Block,
    OpRole,
    Parameter,
    Program,
    Variable,
    default_main_program,
    program_guard,
)
from graphopt.optimizer.state import State
from graphopt.tensor.creation import assign
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import add_n, divide

_SUMS = ("sum_1", "sum_2", "sum_3")
_COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")


class ModelAverage:
    """The mean over a window of steps stands in for each parameter in `apply`.

    Made after `minimize`. The window has at least `min_average_window` and at most
    `max_average_window` steps, in between `average_window_rate` times the steps so far. The state
    is `<parameter>_sum_1_0` and so on. Paddle page: paddle.incubate.ModelAverage.
    """

    def __init__(
        self,
        average_window_rate: float,
        parameters: Sequence[Parameter] | None = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ) -> None:
        require_static()
        kind = type(self).__name__
        self.average_window = arguments.number(average_window_rate, "average_window_rate", kind)
        self.min_average_window = arguments.integer(min_average_window, "min_average_window", kind)
        self.max_average_window = arguments.integer(max_average_window, "max_average_window", kind)
        self._state = State(kind, name)
        program = parameters[0].block.program if parameters else default_main_program()
        chosen = list(parameters or program.global_block().all_parameters())
        with program_guard(program), program.role(OpRole.OPTIMIZE):
            made = {p.name: self._accumulate(program.global_block(), p) for p in chosen}
        self.apply_program, self.restore_program = Program(), Program()
        for parameter in chosen:
            with program_guard(self.apply_program):
                self._apply(self.apply_program.global_block(), parameter, made[parameter.name])
            block = self.restore_program.global_block()
            with program_guard(self.restore_program):
                kept = block._clone_variable(made[parameter.name]["restore"])
                assign(kept, block._clone_variable(parameter))

    def _accumulate(self, block: Block, parameter: Parameter) -> dict[str, Variable]:
        """Append the operator that adds a step to the sums; return the state by name."""
        made = {
            kind: self._state.accumulator(kind, parameter, 0.0, None, None, False)
            for kind in (*_SUMS, "restore")
        }
        for kind in _COUNTS:
            made[kind] = self._state.accumulator(kind, parameter, 0.0, [1], "int64", False)
        parts = (*_SUMS, *_COUNTS)
        inputs = {f"in_{kind}": made[kind] for kind in parts}
        outputs = {f"out_{kind}": made[kind] for kind in parts}
        attrs = {
            "average_window": self.average_window,
            "min_average_window": self.min_average_window,
            "max_average_window": self.max_average_window,
        }
        block.append_op("average_accumulates", {"param": parameter, **inputs}, outputs, attrs)
        return made

    def _apply(self, block: Block, parameter: Parameter, state: dict[str, Variable]) -> None:
        target = block._clone_variable(parameter)
        twins = {kind: block._clone_variable(value) for kind, value in state.items()}
        assign(target, twins["restore"])
        count = add_n([twins["num_accumulates"], twins["old_num_accumulates"]])
        total = add_n([twins[kind] for kind in _SUMS])
        assign(divide(total, cast(count, total.dtype)), target)

    def minimize(self, loss: Variable, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the operators were appended at construction."""

    @contextmanager
    def apply(self, executor: Any = None, need_restore: bool = True) -> Iterator[None]:
        """Replace the parameters by their means inside the block; for good unless `need_restore`.

        Raises ValueError without an executor.
        """
        if executor is None:
            raise ValueError("ModelAverage.apply(): Executor should not be None in static mode")
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any = None) -> None:
        """Restore the parameters that `apply` replaced; ValueError without an executor."""
        if executor is None:
            raise ValueError("ModelAverage.restore(): Executor should not be None in static mode")
        executor.run(self.restore_program)
