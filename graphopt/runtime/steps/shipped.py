"""Compiled programs that came in a file: runners use them in place of a compilation.

The reader of such a file registers them with the program. JAX is imported for them when the program
first runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from graphopt.ir.dialect.collector import keep_imported, paused_collector
from graphopt.ir.program import Program
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.settings.jax_import import import_jax

if TYPE_CHECKING:
    from graphopt.runtime.steps.executable import Executables


Find: TypeAlias = "Callable[[Compilation], Executables | None]"
"""A function that finds the executables of a compilation; None if a file has none for it."""
_shipped: WeakKeyDictionary[Program, Find] = WeakKeyDictionary()


def ship(program: Program, find: Find) -> None:
    """Register the executables that came with a program, until the program is dropped."""
    _shipped[program] = find


def came_with(program: Program) -> bool:
    """Return whether executables came with a program."""
    return program in _shipped


def executables_of(program: Program, compilation: Compilation, reason: str) -> Executables:
    """Find the executables that came with a program for this compilation, else make new ones.

    Raise the errors of `compile_program`.
    """
    with paused_collector():  # imported modules are no garbage
        from graphopt.runtime.steps.executable import Executables

        find, executables = _shipped.get(program), None
        if find is not None:
            import_jax()
            executables = find(compilation)
        if executables is None:
            from graphopt.runtime.disk.summaries import compiled_or_known

            executables = Executables(compiled_or_known(compilation), reason)
        keep_imported("graphopt")
    return executables
