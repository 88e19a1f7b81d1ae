"""Caches values computed only from constant parameters; recomputed when a parameter changes.

A slot of a scope gets a new array whenever its variable is written, by whomever; the source arrays
are kept with the computed values, whose validity follows from their identity.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from graphopt.lowering.host_steps import HostSteps
from graphopt.runtime.state.arrays import Array, Arrays
from graphopt.runtime.state.scope import Scope

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.dialect.signature import Port


class Prepare:
    """The `@prepare` of one module: the state that it `reads`, and a function of that.

    `steps` are the function in NumPy, where NumPy computes it.
    """

    def __init__(
        self,
        reads: tuple[Port, ...],
        function: Callable[[Arrays], Arrays],
        steps: HostSteps | None = None,
    ) -> None:
        self.reads = reads
        self.function = function
        self.steps = steps

    @classmethod
    def of(cls, module: ModuleOp, device: Any) -> Prepare | None:
        """That of a module, if it has one."""
        from graphopt.ir.dialect.signature import function_signature, prepare_function
        from graphopt.lowering.prepare import host_steps, prepare

        function = prepare_function(module)
        if function is None:
            return None
        reads, steps = function_signature(function).arguments, host_steps(module, device)
        if steps is not None:
            return cls.on_host(reads, steps, device)
        return cls(reads, prepare(module, device))

    @classmethod
    def on_host(cls, reads: tuple[Port, ...], steps: HostSteps, device: Any) -> Prepare:
        """One that NumPy computes."""
        return cls(reads, lambda state: jax.device_put(steps(state), device), steps)

    def __call__(self, scope: Scope, state: Sequence[Array]) -> Arrays:
        """The values made of these arrays, for this scope."""
        made_of, made = scope.prepared.get(self, ((), ()))
        if len(made_of) != len(state) or not all(map(operator.is_, made_of, state)):
            with jax.enable_x64(True):
                made = self.function(tuple(state))
            scope.prepared[self] = tuple(state), made
        return made
