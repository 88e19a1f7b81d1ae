"""A background thread for work whose completion no caller waits for; it works in order.

The thread ends with the process, which waits for the current work: XLA cannot stop a compilation,
and aborts a process that exits while it compiles. Queued work is dropped, as is work that waits for
another process.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Protocol, TypeVar

from graphopt.display.progress import AFTER
from graphopt.runtime.settings.progress import say

T = TypeVar("T")


class Work(Protocol):
    """Work for the background thread; it handles its own errors."""

    def work(self) -> None:
        """Do the work."""
        ...


class _Thread:
    """A thread that does not keep the process from ending.

    While `threading.Thread` starts a thread, it waits for a condition: an interrupt then may leave
    the caller waiting for ever, or raise a RuntimeError in place of the interrupt.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._begun, self._ended = _thread.allocate_lock(), False
        self.ident = 0
        self._begun.acquire()

    def start(self) -> None:
        """Start the thread; RuntimeError while the process ends."""
        _thread.start_new_thread(self._main, ())
        self._begun.acquire(timeout=1.0)

    def _main(self) -> None:
        self.ident = threading.get_ident()
        self._begun.release()
        try:
            self._run()
        finally:
            self._ended = True

    def is_alive(self) -> bool:
        """Return whether the thread has started and not ended."""
        return self.ident != 0 and not self._ended


class _Worker:
    """The work queue and its thread, which starts with the first work."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[weakref.ref[Work] | None] = SimpleQueue()
        self._threads: list[_Thread] = []
        self._lock = threading.Lock()
        self._closing = False
        self._waits = False
        """True while the thread waits for another process; the exit of this one need not wait for
        it."""

    def submit(self, work: Work) -> None:
        """Queue work by a weak reference, and start the thread if none is alive."""
        self._queue.put(weakref.ref(work))
        with self._lock:
            if any(thread.is_alive() for thread in self._threads):
                return
            thread = _Thread(self._run)
            self._threads.append(thread)
            atexit.register(self.close)
            with suppress(RuntimeError):  # no thread can start while the process exits
                thread.start()

    def close(self) -> None:
        """Wait for the current work at exit; a Ctrl-C meanwhile ends the process at once."""
        self._closing = True
        self._queue.put(None)
        try:
            for thread in self._threads:
                since, has_said = time.monotonic(), False
                while thread.is_alive() and not self._waits:
                    time.sleep(_OFTEN)
                    if not has_said and time.monotonic() - since > AFTER:
                        say("waiting for a compilation; Ctrl-C ends the process at once")
                        has_said = True
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    def forget_threads(self) -> None:
        """Drop the threads after a fork: they belong to the parent process."""
        self._threads.clear()

    def wait(self, end: Callable[[], T]) -> T:
        """Return `end()`, which waits for another process.

        This process may end meanwhile: then the thread blocks here for good, and touches nothing
        more.
        """
        if threading.get_ident() not in [thread.ident for thread in self._threads]:
            return end()
        self._waits = True
        try:
            return end()
        finally:
            # `close` sets `_closing` before it reads `_waits`, so at least one side sees the
            # other's flag
            self._waits = False
            if self._closing:
                threading.Event().wait()

    def _run(self) -> None:
        while (held := self._queue.get()) is not None and not self._closing:
            work = held()
            if work is not None:
                with _short_turns():
                    work.work()
            del work
        # an interrupt during a start may have left a second thread; this ends it
        self._queue.put(None)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Shorten the switch interval while this thread holds the GIL to trace.

    A step in NumPy releases the GIL in each operator, and would wait 5 ms each time to get it back.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN))
    set_here = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == set_here:
            sys.setswitchinterval(before)


TURN = 1e-4
"""The switch interval in seconds while the thread runs Python and others wait for the GIL."""
_OFTEN = 0.02
"""The interval in seconds at which the exit of the process checks whether the thread has ended."""
_worker = [_Worker()]


def submit(work: Work) -> None:
    """Queue work for the background thread, which keeps no work alive."""
    _worker[0].submit(work)


def wait_for(end: Callable[[], T]) -> T:
    """Return `end()`, which waits for another process, on the background thread or another."""
    return _worker[0].wait(end)


def _after_fork() -> None:
    """Start afresh in a child process, which has no thread and drops its parent's work."""
    _worker[0].forget_threads()
    _worker[0] = _Worker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
