"""LookaheadOptimizer of Paddle 1.8, whose slow weights start as the initial parameters."""

from __future__ import annotations

from typing import Any

from graphopt.fluid import layers
from graphopt.frontend.mode import require_static
from graphopt.ir.dtypes import float32
from graphopt.ir.program import (
    OpRole,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
)
from graphopt.optimizer.optimizer import Optimizer
from graphopt.optimizer.state import is_half
from graphopt.optimizer.wrapping import innermost
from graphopt.tensor.blocks import Switch


class LookaheadOptimizer:
    """An optimizer that every k steps sets slow += alpha * (fast - slow) and fast = slow.

    Source: Zhang and others, 2019. The inner optimizer updates the parameters; the slow weights are
    `<parameter>@SLOW`, and a branch of the program moves them. If a parameter has a master weight,
    that is its fast weight. Raises AssertionError unless alpha is in [0, 1] and k a positive
    integer, TypeError around another LookaheadOptimizer, which would have the same variables.
    Paddle page: fluid.optimizer.LookaheadOptimizer.
    """

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5) -> None:
        require_static()
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert 0.0 <= alpha <= 1.0, "alpha should be larger or equal to 0.0, and less or equal 1.0"
        assert isinstance(k, int) and k > 0, "k should be a positive integer"
        found: Any = inner_optimizer
        while found is not None:
            if isinstance(found, LookaheadOptimizer):
                raise TypeError(
                    "LookaheadOptimizer(): the optimizer has slow weights already, by another "
                    "LookaheadOptimizer; leave one of them out"
                )
            found = getattr(found, "inner_opt", None)
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, alpha, k
        self.type = "lookahead"

    @property
    def inner_opt(self) -> Optimizer:
        """The inner optimizer."""
        return self.inner_optimizer

    def minimize(self, loss: Variable, startup_program: Program | None = None) -> Any:
        """Minimize by the inner optimizer, then append the operators of the slow weights."""
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
        update = innermost(self)
        for parameter in main.all_parameters():
            name, half = f"{parameter.name}@SLOW", is_half(parameter.dtype)
            like = (parameter.shape, float32 if half else parameter.dtype)
            slow[parameter.name] = main.create_var(name, *like, persistable=True)
            twin = startup.create_var(name, *like, persistable=True)
            attrs = {"in_dtype": parameter.dtype.code, "out_dtype": float32.code} if half else {}
            startup.append_op(
                "cast" if half else "assign", {"X": parameter.name}, {"Out": twin}, attrs
            )
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
                    own, master = slow[parameter.name], update.master_weight(parameter)
                    fast = parameter if master is None else master
                    if fast.dtype != own.dtype:
                        fast = layers.cast(fast, own.dtype)
                    mixed = layers.elementwise_add(
                        layers.elementwise_mul(fast, alpha), layers.elementwise_mul(own, rest)
                    )
                    layers.assign(mixed, own)
                    if master is not None:
                        layers.assign(mixed, master)
                    rounds = parameter.dtype != own.dtype
                    layers.assign(
                        layers.cast(mixed, parameter.dtype) if rounds else mixed, parameter
                    )
            with switch.default():
                pass
