"""Caches values computed only from constant parameters; recomputed when a parameter changes.

A slot of a scope gets a new array whenever its variable is written, by whomever; the source arrays
are kept with the computed values, whose validity follows from their identity.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.signature import Port, function_signature, prepare_function
from graphopt.lowering.prepare import prepare
from graphopt.runtime.arrays import Array, Arrays
from graphopt.runtime.scope import Scope


class Prepare:
    """The compiled `@prepare` of one module; `reads` is the state that it takes."""

    def __init__(self, module: ModuleOp, reads: tuple[Port, ...], device: Any) -> None:
        self.reads = reads
        self.function = prepare(module, device)

    @classmethod
    def of(cls, module: ModuleOp, device: Any) -> Prepare | None:
        """That of a module, if it has one."""
        function = prepare_function(module)
        return cls(module, function_signature(function).arguments, device) if function else None

    def __call__(self, scope: Scope, state: Sequence[Array]) -> Arrays:
        """The values made of these arrays, for this scope."""
        made_of, made = scope.prepared.get(self, ((), ()))
        if len(made_of) != len(state) or not all(map(operator.is_, made_of, state)):
            with jax.enable_x64(True):
                made = self.function(tuple(state))
            scope.prepared[self] = tuple(state), made
        return made
