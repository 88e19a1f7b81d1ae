"""LookAhead: slow weights that follow another optimizer's fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend.mode import op_attrs
from graphopt.ir.program import (
    Operator,
    OpRole,
    Program,
    Variable,
    default_main_program,
    program_guard,
    unique_name,
)
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.state import State
from graphopt.tensor.creation import assign, create_global_var, full
from graphopt.tensor.logic import equal
from graphopt.tensor.math import add, remainder, scale
from graphopt.tensor.search import where


class LookAhead:
    """Every k steps, slow += alpha * (fast - slow) and fast = slow (Zhang and others, 2019).

    The inner optimizer updates the parameters; the slow weights, `<parameter>_slow_0`, start as
    the parameters after the first step, as in Paddle. Raises ValueError unless alpha is in [0, 1]
    and k a positive integer. Paddle page: paddle.incubate.LookAhead.
    """

    def __init__(
        self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5, name: str | None = None
    ) -> None:
        if not isinstance(inner_optimizer, Optimizer):
            raise TypeError("LookAhead(): inner optimizer must be an Optimizer")
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(
                "LookAhead(): alpha should be larger or equal to 0.0, and less or equal than 1.0"
            )
        if isinstance(k, bool) or not isinstance(k, int) or k <= 0:
            raise ValueError("LookAhead(): k should be a positive integer")
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, float(alpha), k
        self._state = State("LookAhead", name)

    @property
    def inner_opt(self) -> Optimizer:
        """The inner optimizer."""
        return self.inner_optimizer

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """As the inner optimizer's, with the operators of the slow weights after it."""
        made = self.inner_optimizer.minimize(loss, startup_program, parameters, no_grad_set)
        program = loss.block.program
        with program_guard(program, startup_program), program.role(OpRole.OPTIMIZE):
            self._follow(made[1])
        return made

    def _follow(self, pairs: Pairs) -> None:
        block = default_main_program().global_block()
        name = unique_name.generate("lookahead_step")
        step = create_global_var([1], 0, "int32", persistable=True, name=name)
        block.append_op("increment", {"X": step}, {"Out": step}, {"step": 1.0})
        first = equal(step, full([1], 1, "int32"))
        due = equal(remainder(step, full([1], self.k, "int32")), full([1], 0, "int32"))
        for parameter, grad in sorted(pairs, key=lambda pair: pair[0].name):
            with op_attrs(op_role_var=[parameter.name, grad.name]):
                slow = self._state.accumulator("slow", parameter, 0.0, None, None, False)
                assign(where(first, parameter, slow), slow)
                mixed = add(scale(parameter, self.alpha), scale(slow, 1.0 - self.alpha))
                assign(where(due, mixed, parameter), parameter)
                assign(where(due, mixed, slow), slow)

    def __getattr__(self, name: str) -> Any:
        """Other attributes are the inner optimizer's: get_lr, set_lr, …"""
        if name == "inner_optimizer":
            raise AttributeError(name)
        return getattr(self.inner_optimizer, name)
