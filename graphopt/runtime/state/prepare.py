"""Cached values computed only from constant parameters, recomputed when a parameter changes.

Every write of a variable puts a new array into its slot. The source arrays are kept with the
computed values, which are valid as long as the arrays are identical.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphopt.lowering.host_steps import HostSteps
from graphopt.runtime.state.arrays import Array, Arrays, HostArray
from graphopt.runtime.state.scope import Scope

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.dialect.signature import Port


# returns a device of JAX; only that call imports JAX
Device: TypeAlias = "Callable[[], Any]"


class Prepare:
    """The `@prepare` of one module: the state that it `reads`, and a function of that state.

    `steps` is the function in NumPy, where NumPy computes it.
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

    def is_like(self, other: Prepare) -> bool:
        """Return whether both compute the same values of the same state."""
        if self.steps is None or other.steps is None:
            return False
        names = [[port.name for port in each.reads] for each in (self, other)]
        return names[0] == names[1] and self.steps.record() == other.steps.record()

    @classmethod
    def of(cls, module: ModuleOp, platform: str, device: Device) -> Prepare | None:
        """Build the `@prepare` of a module for a device of this platform; None without one."""
        from graphopt.ir.dialect.signature import function_signature, prepare_function
        from graphopt.lowering.host_rules import host_steps

        function = prepare_function(module)
        if function is None:
            return None
        reads = function_signature(function).arguments
        steps = host_steps(module) if platform == "cpu" else None
        if steps is not None:
            return cls.on_host(reads, steps, device)

        @functools.cache
        def compile_step() -> Callable[[Arrays], Arrays]:
            where = device()
            from graphopt.lowering.prepare import prepare

            return prepare(module, where)

        def function_of_state(state: Arrays) -> Arrays:
            function = compile_step()
            import jax

            with jax.enable_x64(True):
                return function(state)

        return cls(reads, function_of_state)

    @classmethod
    def on_host(cls, reads: tuple[Port, ...], steps: HostSteps, device: Device) -> Prepare:
        """Build a `@prepare` that NumPy computes."""

        def function(state: Arrays) -> Arrays:
            where = device()
            import jax

            with jax.enable_x64(True):
                return jax.device_put(steps(state), where)

        return cls(reads, function, steps)

    def __call__(self, scope: Scope, state: Sequence[Array]) -> Arrays:
        """Compute the values of these arrays on the device, or find them in the scope."""
        return self._find_or_make(scope, state, self.function)

    def in_numpy(self, scope: Scope, state: Sequence[Array]) -> tuple[HostArray, ...]:
        """Compute the values of these arrays as NumPy arrays, or find them in the scope."""
        made = self._find_or_make(scope, state, self.steps or self.function)
        return tuple(map(np.asarray, made))

    def _find_or_make(
        self, scope: Scope, state: Sequence[Array], make: Callable[[Arrays], Arrays]
    ) -> Arrays:
        made_of, made = scope.prepared.get(self, ((), ()))
        if len(made_of) != len(state) or not all(map(operator.is_, made_of, state)):
            made = make(tuple(state))
            scope.prepared[self] = tuple(state), made
        return made
