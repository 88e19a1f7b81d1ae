"""LookaheadOptimizer of Paddle 1.8, whose slow weights start as the initial parameters."""

from __future__ import annotations

from typing import Any

from graphopt.fluid import layers
from graphopt.frontend.mode import require_static
from graphopt.ir.program import (
    OpRole,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
)
from graphopt.optimizer.optimizer import Optimizer
from graphopt.static.nn.blocks import Switch


class LookaheadOptimizer:
    """Every k steps, slow += alpha * (fast - slow) and fast = slow (Zhang and others, 2019).

    The inner optimizer updates the parameters; the slow weights are `<parameter>@SLOW`, and a
    branch of the program moves them. Raises AssertionError unless alpha is in [0, 1] and k a
    positive integer. Paddle page: fluid.optimizer.LookaheadOptimizer.
    """

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5) -> None:
        require_static()
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert 0.0 <= alpha <= 1.0, "alpha should be larger or equal to 0.0, and less or equal 1.0"
        assert isinstance(k, int) and k > 0, "k should be a positive integer"
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, alpha, k
        self.type = "lookahead"

    @property
    def inner_opt(self) -> Optimizer:
        """The inner optimizer."""
        return self.inner_optimizer

    def minimize(self, loss: Variable, startup_program: Program | None = None) -> Any:
        """As the inner optimizer's, with the operators of the slow weights after it."""
        made = self.inner_optimizer.minimize(loss, startup_program=startup_program)
        program = loss.block.program
        with program_guard(program, startup_program), program.role(OpRole.OPTIMIZE):
            self._follow()
        return made

    def _follow(self) -> None:
        main, startup = (
            program.global_block()
            for program in (default_main_program(), default_startup_program())
        )
        slow: dict[str, Variable] = {}
        for parameter in main.all_parameters():
            name, like = f"{parameter.name}@SLOW", (parameter.shape, parameter.dtype)
            slow[parameter.name] = main.create_var(name, *like, persistable=True)
            twin = startup.create_var(name, *like, persistable=True)
            startup.append_op("assign", {"X": parameter.name}, {"Out": twin})
        k, alpha, step = (
            layers.create_global_var([1], value, dtype, persistable=True, name=f"lookahead_{name}")
            for name, value, dtype in (
                ("k", self.k, "int32"),
                ("alpha", self.alpha, "float32"),
                ("step", 0, "int32"),
            )
        )
        layers.increment(step)
        zero = layers.fill_constant([1], "int32", 0)
        rest = layers.elementwise_sub(layers.fill_constant([1], "float32", 1.0), alpha)
        due = layers.equal(layers.elementwise_mod(step, k), zero)
        with Switch() as switch:
            with switch.case(due):
                for parameter in main.all_parameters():
                    own = slow[parameter.name]
                    mixed = layers.elementwise_add(
                        layers.elementwise_mul(parameter, alpha), layers.elementwise_mul(own, rest)
                    )
                    layers.assign(mixed, own)
                    layers.assign(mixed, parameter)
            with switch.default():
                pass
