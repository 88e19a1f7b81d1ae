"""Switches between Paddle's two program representations (paddle.pir_utils).

graphopt has one: layers append Operators to a Program, independent of the switch. So a script that
builds its programs both ways builds the same ones twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from typing import Any

from graphopt.frontend.mode import static_mode
from graphopt.ir.program import Program, program_guard


class DygraphOldIrGuard:
    """The mode and the default programs around a `with` block, inside it too (DygraphOldIrGuard).

    Paddle switches PIR off there, which graphopt does not have.
    """

    def __init__(self) -> None:
        self._inside = ExitStack()

    def __enter__(self) -> None:
        for change in self._changes():
            self._inside.enter_context(change)

    def __exit__(self, *error: object) -> None:
        self._inside.close()

    def _changes(self) -> Iterator[AbstractContextManager[None]]:
        yield from ()


class OldIrGuard(DygraphOldIrGuard):
    """Static mode inside a `with` block, with the default programs around it (OldIrGuard)."""

    def _changes(self) -> Iterator[AbstractContextManager[None]]:
        yield static_mode()


class DygraphPirGuard(DygraphOldIrGuard):
    """Default programs of its own in a `with` block, in the mode around it (DygraphPirGuard)."""

    def _changes(self) -> Iterator[AbstractContextManager[None]]:
        yield program_guard(Program(), Program())


class IrGuard(DygraphOldIrGuard):
    """Static mode with default programs of its own inside a `with` block (IrGuard)."""

    def _changes(self) -> Iterator[AbstractContextManager[None]]:
        yield from (static_mode(), program_guard(Program(), Program()))


def test_with_pir_api(func: Callable[..., Any]) -> Callable[..., None]:
    """Decorate a function to run twice: outside an IrGuard, then inside (test_with_pir_api)."""

    @wraps(func)
    def both(*args: Any, **kwargs: Any) -> None:
        func(*args, **kwargs)
        with IrGuard():
            func(*args, **kwargs)

    return both
