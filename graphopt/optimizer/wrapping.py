"""Base of optimizers around others, such as half precision and gradient merging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from graphopt.display.facts import WithFacts
from graphopt.frontend.mode import require_static
from graphopt.ir.program import Operator, Program, Variable, program_guard
from graphopt.optimizer.optimizer import Optimizer, Pairs


class WrappingOptimizer(WithFacts):
    """An optimizer around `inner_opt`, which it calls in `backward` and `apply_gradients`.

    `inner_opt` is an Optimizer or a wrapper of one. Raises TypeError for an optimizer without its
    own `backward` and `apply_gradients`, as the work of its `minimize` would be left out, and for
    an optimizer that already contains a wrapper of this `kind`; UnsupportedError in dynamic mode.
    """

    kind: ClassVar[str] = ""
    """An effect that an optimizer may have only once, in words; "" if it may have several."""

    def __init__(self, inner: Any) -> None:
        require_static()
        _check_inner(type(self), inner)
        self.inner_opt = inner

    def _facts(self) -> Mapping[str, str]:
        """Describe the inner optimizer."""
        return {"inner_opt": repr(self.inner_opt)}

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward pass and the updates to the loss's program.

        Returns the operators that update and the pairs of `backward`.
        """
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_optimize(loss, startup_program, pairs), pairs

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Append the backward pass; return the (parameter, gradient) pairs."""
        return self.inner_opt.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: Pairs
    ) -> list[Operator]:
        """Call `apply_gradients` in the program of `loss`."""
        with program_guard(loss.block.program, startup_program):
            return self.apply_gradients(params_grads)

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append the updates of the inner optimizer; return the operators that update."""
        return self.inner_opt.apply_gradients(params_grads)


def _check_inner(outer: type[WrappingOptimizer], inner: Any) -> None:
    for step in ("backward", "apply_gradients"):
        # check the type: an object may forward the inner optimizer's attributes
        if inner is not None and not callable(getattr(type(inner), step, None)):
            raise TypeError(
                f"{outer.__name__}(): {type(inner).__name__} has no {step}() of its own, so that "
                f"what its minimize() adds would be left out; put {outer.__name__} inside of it"
            )
    found = inner
    while found is not None:
        if outer.kind and getattr(type(found), "kind", "") == outer.kind:
            raise TypeError(
                f"{outer.__name__}(): the optimizer has {outer.kind} already, by "
                f"{type(found).__name__}; leave one of them out"
            )
        found = getattr(found, "inner_opt", None)


def innermost(optimizer: Any) -> Optimizer:
    """Unwrap an optimizer down to the one that updates the parameters."""
    while hasattr(optimizer, "inner_opt"):
        optimizer = optimizer.inner_opt
    return optimizer
