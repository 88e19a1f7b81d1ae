"""Signals that are deferred while state moves from one place to another.

A step donates the buffers of the old state and stores the new state afterwards. Python runs signal
handlers between any two of its instructions, so a Ctrl-C there would lose both. The functions are
from `_signal`: the enum wrappers of `signal` cost a tenth of a small step.
"""

from __future__ import annotations

import signal
import threading
from _signal import getsignal  # pyright: ignore[reportMissingImports]
from _signal import signal as set_handler  # pyright: ignore[reportMissingImports]
from _thread import get_ident
from collections.abc import Callable
from typing import Any

Handlers = tuple[tuple[int, Callable[[int, Any], Any]], ...]

_MAIN = threading.main_thread().ident
# the signals with Python handlers that raise; a step need not query all 64
_SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_waiting: list[int] = []


def _later(number: int, _: Any) -> None:
    """Defer a signal; the handler inside a block."""
    if number not in _waiting:
        _waiting.append(number)


class Uninterrupted:
    """A block in which Python's signal handlers wait; they are called at its end.

    Handlers run on the main thread only, so on others this does nothing. Blocks may be nested. An
    exception that another thread raises by `PyThreadState_SetAsyncExc` cannot be deferred: see
    `aside`.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before: Handlers = ()
        if get_ident() != _MAIN:
            return
        found = tuple(map(getsignal, _SIGNALS))
        if found != _known.handlers:
            _known.look(found)
        self._before = _known.pythons
        try:
            for number, _ in self._before:
                set_handler(number, _later)
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        if self._before:
            self._restore()

    def _restore(self) -> None:
        """Restore all handlers, even if one raises, and call those that waited."""
        try:
            for number, handler in self._before:
                if getsignal(number) is _later:
                    set_handler(number, handler)
            if _waiting:
                signal.raise_signal(_waiting.pop(0))
        except BaseException:
            self._restore()
            raise
        if _waiting:
            self._restore()


class _KnownHandlers:
    """The latest handlers, and Python's among them that are not deferred already."""

    def __init__(self) -> None:
        self.handlers: tuple[Any, ...] = ()
        self.pythons: Handlers = ()

    def look(self, found: tuple[Any, ...]) -> None:
        """Note the handlers; one that is no function is the system's."""
        pairs = zip(_SIGNALS, found, strict=True)
        self.pythons = tuple((n, h) for n, h in pairs if callable(h) and h is not _later)
        self.handlers = found


_known = _KnownHandlers()
