"""A hook called with each executed program and its inputs (used by `graphopt bisect`)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# called with the compiled program, its inputs by name (for one replica), and the random key
Watcher = Callable[[Any, dict[str, Any], Any], None]
_watcher: ContextVar[Watcher | None] = ContextVar("graphopt_watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """Call `watcher` with each step of each program, before it runs."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


watcher = _watcher.get
"""Return the current watcher, or None; a C function, since each step calls it."""
