"""Switches between Paddle's two records of programs (paddle.pir_utils).

graphopt has one: layers append Operators to a Program, whatever the switch says. So a script that
builds its programs both ways builds the same ones twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from graphopt.frontend.mode import static_mode
from graphopt.ir.program import Program, program_guard


class IrGuard:
    """Static mode with default programs of its own inside a `with` block (IrGuard)."""

    def __init__(self) -> None:
        self._inside = ExitStack()

    def __enter__(self) -> None:
        self._inside.enter_context(static_mode())
        self._inside.enter_context(program_guard(Program(), Program()))

    def __exit__(self, *error: object) -> None:
        self._inside.close()


def test_with_pir_api(func: Callable[..., Any]) -> Callable[..., None]:
    """The function called twice, outside of an IrGuard and then inside (test_with_pir_api)."""

    @wraps(func)
    def both(*args: Any, **kwargs: Any) -> None:
        func(*args, **kwargs)
        with IrGuard():
            func(*args, **kwargs)

    return both
