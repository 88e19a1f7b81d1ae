"""A trace: one call of a Python function, whose operators become a program of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from graphopt.frontend.first_values import needs_feed, value_of
from graphopt.ir.program import Block, Program, Variable, default_main_program
from graphopt.runtime.compiled_program import CompiledProgram

Function = Callable[..., Any]


class TensorPlaces(Protocol):
    """The places of the script that hold tensors."""

    def besides(self, known: list[Any]) -> TensorPlaces: ...

    def names(self) -> list[str]: ...

    def read(self) -> list[Any]: ...

    def write(self, values: list[Any]) -> None: ...


class Holders(Protocol):
    """The objects of the script that hold tensors."""

    def watch(self, root: object) -> None: ...

    def tensors(self) -> TensorPlaces: ...


class TracedProgram(Program):
    """A program that takes over the variables of other programs that it reads.

    They are parameters, buffers and constants created before the trace. Each becomes a persistable
    variable here, whose value is in the global scope. `held`, if given, is shown each layer before
    its call, and knows the tensors that objects of the script hold.
    """

    def __init__(self, sources: Iterable[Program], held: Holders | None = None) -> None:
        super().__init__()
        self.held = held
        self.blocks = [_Borrowing(self, 0)]
        self.sources = tuple(dict.fromkeys(sources))


class _Borrowing(Block):
    """The global block of a traced program."""

    program: TracedProgram  # pyright: ignore[reportIncompatibleVariableOverride]

    def find_var(self, name: str) -> Variable | None:
        found = super().find_var(name)
        if found is not None:
            return found
        for source in self.program.sources:
            outer = source.global_block().vars.get(name)
            if outer is not None and (outer.persistable or not needs_feed(outer)):
                if not outer.persistable:
                    value_of(outer)
                return self._clone_variable(outer)
        return None


def current_trace() -> TracedProgram | None:
    """Return the program of the trace in progress; None outside of a trace."""
    program = default_main_program()
    return program if isinstance(program, TracedProgram) else None


_convert: Callable[[Function], Function] | None = None


@contextmanager
def converting(convert: Callable[[Function], Function]) -> Iterator[None]:
    """Apply `convert` to each user function that a layer calls inside the `with` block."""
    global _convert
    before, _convert = _convert, convert
    try:
        yield
    finally:
        _convert = before


def is_converting() -> bool:
    """True inside `converting`."""
    return _convert is not None


def traceable(function: Function) -> Function:
    """Convert a function for a trace; return it unchanged outside of traces."""
    return function if _convert is None else _convert(function)


class TracedFunction(ABC):
    """A function or layer with a program that was traced from it."""

    @abstractmethod
    def compiled_program(self) -> CompiledProgram:
        """Return the latest traced program, with its strategy."""

    @abstractmethod
    def output_names(self) -> list[str]:
        """Return the names of the results of that program."""
