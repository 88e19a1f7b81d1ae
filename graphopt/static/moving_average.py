"""Moving averages of parameters for evaluation (paddle.static.ExponentialMovingAverage)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.mode import name_scope, op_attrs, require_static
from graphopt.ir.program import (
    Block,
    OpRole,
    Parameter,
    Program,
    Variable,
    default_main_program,
    program_guard,
    unique_name,
)
from graphopt.optimizer.state import is_half
from graphopt.tensor.creation import assign, create_global_var, full
from graphopt.tensor.logic import greater_than, less_than
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import add, divide, multiply, pow, scale
from graphopt.tensor.search import where

COUNTER = "@EMA_STEP_COUNTER@"


class ExponentialMovingAverage:
    """ema = decay * ema + (1 - decay) * parameter after each step, corrected for its start at 0.

    Create it after the network; `update()` after `minimize` appends the operators. With
    `thres_steps`, a variable that counts steps t, the decay is min(decay, (1 + t) / (10 + t)).
    `apply(executor)` replaces the parameters by the averages, `restore(executor)` undoes it. The
    averages are named `<name><parameter>_ema_0`; parameters with `do_model_average=False` have
    none. Paddle page: paddle.static.ExponentialMovingAverage.
    """

    def __init__(
        self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None
    ) -> None:
        require_static()
        self._decay = arguments.number(decay, "decay", "ExponentialMovingAverage")
        self._name = name or ""
        self._decay_var = self._decay_variable(thres_steps)
        parameters = [
            p for p in default_main_program().global_block().all_parameters() if p.do_model_average
        ]
        self._averages = {p.name: self._average(p) for p in parameters}
        self._parameters = parameters
        kept = [unique_name.generate(f"{self._name}{p.name}.ema_tmp") for p in parameters]
        self.apply_program = self._apply_program(kept)
        self.restore_program = Program()
        block = self.restore_program.global_block()
        with program_guard(self.restore_program):
            for parameter, name in zip(parameters, kept, strict=True):
                assign(_twin(block, parameter, name), _twin(block, parameter))

    def _decay_variable(self, thres_steps: Variable | None) -> Variable:
        with default_main_program().role(OpRole.LR_SCHEDULE):
            name = "scheduled_ema_decay_rate"
            made = create_global_var([1], self._decay, "float32", persistable=True, name=name)
            if thres_steps is not None:
                steps = cast(
                    arguments.variable(thres_steps, "thres_steps", type(self).__name__), "float32"
                )
                ratio = divide(scale(steps, 1.0, 1.0), scale(steps, 1.0, 10.0))
                limit = full([1], self._decay, "float32")
                assign(where(less_than(ratio, limit), ratio, limit), made)
        return made

    def _average(self, parameter: Parameter) -> Variable:
        name = unique_name.generate(f"{self._name}{parameter.name}_ema")
        dtype = "float32" if is_half(parameter.dtype) else parameter.dtype
        return create_global_var(parameter.shape, 0.0, dtype, persistable=True, name=name)

    def _apply_program(self, kept: list[str]) -> Program:
        program = Program()
        block = program.global_block()
        with program_guard(program):
            counter = create_global_var([1], 0, "int64", persistable=True, name=COUNTER)
            step = cast(counter, "float32")
            weight = scale(pow(_twin(block, self._decay_var), step), -1.0, 1.0)
            started = greater_than(step, full([1], 0.0, "float32"))
            divisor = where(started, weight, full([1], 1.0, "float32"))
            for parameter, name in zip(self._parameters, kept, strict=True):
                target = _twin(block, parameter)
                average = _twin(block, self._averages[parameter.name])
                assign(target, _twin(block, parameter, name))
                mean = divide(average, cast(divisor, average.dtype))
                assign(_in_dtype_of(parameter, mean), target)
        return program

    def update(self) -> None:
        """Append the operators that update the averages to the program of the parameters."""
        from graphopt.optimizer.lr.counter import autoincreased_step_counter

        program = self._decay_var.block.program
        with program_guard(program):
            autoincreased_step_counter(COUNTER)
            rest = scale(self._decay_var, -1.0, 1.0)
            with program.role(OpRole.OPTIMIZE), name_scope("moving_average"):
                for parameter in self._parameters:
                    self._follow(parameter, rest)

    def _follow(self, parameter: Parameter, rest: Variable) -> None:
        """Append the operators that move an average toward its parameter."""
        average = self._averages[parameter.name]
        with op_attrs(op_role_var=[parameter.name, average.name]):
            decay, new = (cast(v, average.dtype) for v in (self._decay_var, rest))
            value = _in_dtype_of(average, parameter)
            assign(add(multiply(average, decay), multiply(value, new)), average)

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """Use the averages as parameters inside the block; for good unless `need_restore`."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Put back the parameters that `apply` replaced."""
        executor.run(self.restore_program)


def _in_dtype_of(like: Variable, x: Variable) -> Variable:
    return x if x.dtype == like.dtype else cast(x, like.dtype)


def _twin(block: Block, variable: Variable, name: str | None = None) -> Variable:
    """Declare the same state in another program, or like state under another name."""
    flags = {"persistable": True, "stop_gradient": True}
    return block.create_var(name or variable.name, variable.shape, variable.dtype, **flags)
