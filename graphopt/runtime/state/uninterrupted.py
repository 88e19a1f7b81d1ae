"""Signals that wait while state is on its way from one place to another.

A step gives the buffers of the old state away and stores the new state afterwards. Python runs the
handlers of signals between any two of its instructions, so Ctrl-C there would leave neither.
The functions are those of `_signal`: the enums that `signal` puts around them cost a tenth of a
small step.
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
# those for which scripts have handlers that raise: a step need not query all 64
_SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_waiting: list[int] = []


def _later(number: int, _: Any) -> None:
    """The handler while state is on its way."""
    if number not in _waiting:
        _waiting.append(number)


class Uninterrupted:
    """Inside the block Python's handlers of signals wait; they are called at its end.

    Handlers run on the main thread alone, so on others this does nothing. Blocks may be nested.
    What another thread raises by `PyThreadState_SetAsyncExc` cannot be held back: see `aside`.
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
        """Put the handlers back, all of them also when one raises, and call those that waited."""
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
    """The handlers as they were last, and Python's among them that do not wait already."""

    def __init__(self) -> None:
        self.handlers: tuple[Any, ...] = ()
        self.pythons: Handlers = ()

    def look(self, found: tuple[Any, ...]) -> None:
        """Note them; what is no function is the system's."""
        pairs = zip(_SIGNALS, found, strict=True)
        self.pythons = tuple((n, h) for n, h in pairs if callable(h) and h is not _later)
        self.handlers = found


_known = _KnownHandlers()
