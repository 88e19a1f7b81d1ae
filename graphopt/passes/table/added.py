"""Passes that a user adds to the passes of the table, without a flag.

They run after the fusions, in the order given. `CompiledProgram(..., passes=[...])` takes them for
one program, and `adding` for all CompiledPrograms that are made in its block.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.passes import ModulePass

from graphopt.passes.table.pipeline import passes_of

FLAG = "added pass"
"""The text that reports show for an added pass in place of a flag."""

GivenPass = str | type[ModulePass] | ModulePass
_of_block: ContextVar[tuple[ModulePass, ...]] = ContextVar("_of_block", default=())


def as_passes(given: Sequence[object]) -> tuple[ModulePass, ...]:
    """Convert names, pipeline texts, classes and instances to passes.

    Raise TypeError for any other item, and ValueError for an unknown name.
    """
    if isinstance(given, str):
        raise TypeError(f"passes must be a list of passes, found {given!r}")
    found: list[ModulePass] = []
    for item in given:
        if isinstance(item, str):
            found += passes_of(item)
        elif isinstance(item, ModulePass):
            found.append(item)
        elif isinstance(item, type) and issubclass(item, ModulePass):
            found.append(item())
        else:
            raise TypeError(f"a pass is a name, a ModulePass or its class, found {item!r}")
    return tuple(found)


@contextmanager
def adding(*passes: GivenPass) -> Generator[None]:
    """Add passes to the CompiledPrograms made in the block, after the passes of outer blocks.

    Raise the errors of `as_passes`.
    """
    token = _of_block.set(_of_block.get() + as_passes(passes))
    try:
        yield
    finally:
        _of_block.reset(token)


def of_block() -> tuple[ModulePass, ...]:
    """Return the passes that the enclosing `adding` blocks add."""
    return _of_block.get()
