"""LookAhead: slow weights that follow another optimizer's fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend.mode import op_attrs
from graphopt.ir.dtypes import DType
from graphopt.ir.program import (
    Operator,
    OpRole,
    Parameter,
    Program,
    Variable,
    default_main_program,
    program_guard,
    unique_name,
)
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.state import State, persistable
from graphopt.tensor.creation import assign, create_global_var, full
from graphopt.tensor.logic import equal
from graphopt.tensor.math import add, remainder, scale
from graphopt.tensor.scaled import cast_to
from graphopt.tensor.search import where


class LookAhead:
    """Every k steps, slow += alpha * (fast - slow) and fast = slow (Zhang and others, 2019).

    The inner optimizer updates the parameters; the slow weights, `<parameter>_slow_0`, start as the
    parameters after the first step, as in Paddle. For a parameter with a master weight, the master
    weight is the fast weight. Other wrappers enclose LookAhead, and only steps that update the
    parameters count as its steps. Raises TypeError for an inner optimizer that wraps another,
    ValueError unless alpha is in [0, 1] and k a positive integer. Paddle page:
    paddle.incubate.LookAhead.
    """

    def __init__(
        self,
        inner_optimizer: Optimizer | LookAhead,
        alpha: float = 0.5,
        k: int = 5,
        name: str | None = None,
    ) -> None:
        if not isinstance(inner_optimizer, Optimizer | LookAhead):
            found = type(inner_optimizer).__name__
            raise TypeError(
                f"LookAhead(): inner optimizer must be an Optimizer such as SGD, found {found}"
                + (
                    "; put LookAhead inside of that"
                    if hasattr(inner_optimizer, "inner_opt")
                    else ""
                )
            )
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(
                "LookAhead(): alpha should be larger or equal to 0.0, and less or equal than 1.0"
            )
        if isinstance(k, bool) or not isinstance(k, int) or k <= 0:
            raise ValueError("LookAhead(): k should be a positive integer")
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, float(alpha), k
        self._state = State("LookAhead", name)

    @property
    def inner_opt(self) -> Optimizer | LookAhead:
        """The inner optimizer."""
        return self.inner_optimizer

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """Minimize with the inner optimizer, and append the operators of the slow weights."""
        pairs = self.inner_optimizer.backward(loss, startup_program, parameters, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: Pairs
    ) -> list[Operator]:
        """Call `apply_gradients` in the program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def backward(self, *args: Any, **kwargs: Any) -> Pairs:
        """Append the inner optimizer's backward pass; return (parameter, gradient) pairs."""
        return self.inner_optimizer.backward(*args, **kwargs)

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append the updates of the inner optimizer, and the operators of the slow weights.

        Returns the operators that update.
        """
        made = self.inner_optimizer.apply_gradients(params_grads)
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        if pairs:
            program = pairs[0][0].block.program
            with program_guard(program), program.role(OpRole.OPTIMIZE):
                self._follow(pairs)
        return made

    def _follow(self, pairs: Pairs) -> None:
        block = default_main_program().current_block()
        step = self._number("lookahead_step", 0)
        block.append_op("increment", {"X": step}, {"Out": step}, {"step": 1.0})
        first = equal(step, full([1], 1, "int32"))
        # Paddle reads this state without using it; it is needed for equal names in saved files
        persistable(unique_name.generate("learning_rate"), [1], DType("float32"), self.alpha)
        slows = [self._state.accumulator("slow", p, 0.0, None, None, True) for p, _ in pairs]
        for (parameter, grad), slow in zip(pairs, slows, strict=True):
            with op_attrs(op_role_var=[parameter.name, grad.name]):
                k = self._number("lookahead_k", self.k)
                due = equal(remainder(step, k), full([1], 0, "int32"))
                self._mix(parameter, slow, first, due)

    def _mix(self, parameter: Parameter, slow: Variable, first: Variable, due: Variable) -> None:
        """Append the operators of one parameter."""
        master = self.inner_optimizer.master_weight(parameter)
        kept = parameter if master is None else master
        fast = _cast(kept, slow.dtype)
        assign(where(first, fast, slow), slow)
        mixed = add(scale(fast, self.alpha), scale(slow, 1.0 - self.alpha))
        after = where(due, mixed, fast)
        assign(where(due, mixed, slow), slow)
        for target in {kept.name: kept, parameter.name: parameter}.values():
            assign(_cast(after, target.dtype), target)

    def _number(self, name: str, value: int) -> Variable:
        name = unique_name.generate(name)
        return create_global_var([1], value, "int32", persistable=True, name=name)

    def __getattr__(self, name: str) -> Any:
        """Get other attributes from the inner optimizer: get_lr, set_lr, …"""
        if name == "inner_optimizer":
            raise AttributeError(name)
        return getattr(self.inner_optimizer, name)


def _cast(x: Variable, dtype: DType) -> Variable:
    return x if x.dtype == dtype else cast_to(x, dtype)
