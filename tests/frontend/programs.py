"""Small programs and runs that the front-end tests share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import unique_name


@contextmanager
def fresh() -> Iterator[tuple[Any, Any]]:
    """Enter new main and startup programs and a new scope, with names that count from zero."""
    main, startup = static.Program(), static.Program()
    with (
        unique_name.guard(),
        static.scope_guard(static.Scope()),
        static.program_guard(main, startup),
    ):
        yield main, startup


@lru_cache(maxsize=1)
def executor_of(program: Any) -> Any:
    """Return the executor for all runs of a program, so that it is compiled once."""
    return static.Executor(paddle.CPUPlace())


def run(fetches: Sequence[Any] = (), **feed: Any) -> list[np.ndarray[Any, Any]]:
    """Run the default main program once."""
    main = static.default_main_program()
    return executor_of(main).run(main, feed, list(fetches))


def start() -> None:
    """Run the default startup program once."""
    static.Executor(paddle.CPUPlace()).run(static.default_startup_program())


def weight(name: str, value: Any, **attributes: Any) -> Any:
    """Create a parameter with this value."""
    array = np.asarray(value, "float32")
    attr = paddle.ParamAttr(name, paddle.nn.initializer.Assign(array), **attributes)
    return static.create_parameter(list(array.shape), "float32", attr=attr)


def types(program: Any) -> list[str]:
    """List the operator types of a program's global block."""
    return [op.type for op in program.global_block().ops]
