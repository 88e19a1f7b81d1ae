"""A thread for work whose end no caller needs: it does one thing after the other, in order.

The thread ends with the process, which waits for the work under way: XLA cannot stop a compilation,
and aborts a process that leaves while it compiles. Work that has not begun is left undone, as is
work that waits for another process.
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
    """Something to do; it keeps its errors to itself."""

    def work(self) -> None:
        """Do it."""
        ...


class _Thread:
    """A thread that the process may leave.

    An interrupt while `threading.Thread` starts one may leave its caller waiting for ever, or raise
    a RuntimeError in place of the interrupt: it waits for a condition.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._begun, self._ended = _thread.allocate_lock(), False
        self.ident = 0
        self._begun.acquire()

    def start(self) -> None:
        """Begin; RuntimeError while the process ends."""
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
        """True from the begin to the end."""
        return self.ident != 0 and not self._ended


class _Worker:
    """The thread, from its first work on, and what it has to do."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[weakref.ref[Work] | None] = SimpleQueue()
        self._threads: list[_Thread] = []
        self._lock = threading.Lock()
        self._closing = False
        self._waits = False
        """True while the thread waits for another process, and may be left."""

    def submit(self, work: Work) -> None:
        """Have it done, unless it is gone by then."""
        self._queue.put(weakref.ref(work))
        with self._lock:
            if any(thread.is_alive() for thread in self._threads):
                return
            thread = _Thread(self._run)
            self._threads.append(thread)
            atexit.register(self.close)
            with suppress(RuntimeError):  # none is started while the process ends
                thread.start()

    def close(self) -> None:
        """Wait for what is under way; a Ctrl-C meanwhile ends the process at once."""
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
        """They are those of the process that this one is a child of."""
        self._threads.clear()

    def wait(self, end: Callable[[], T]) -> T:
        """The value of `end`, which waits for another process.

        The process may end meanwhile: then the thread stays here, and touches nothing any more.
        """
        if threading.get_ident() not in [thread.ident for thread in self._threads]:
            return end()
        self._waits = True
        try:
            return end()
        finally:
            # `close` sets the second one before it reads the first: one of both sees the other
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
        # an interrupt while one began may have left another thread, which ends with this
        self._queue.put(None)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads wait less for the lock of the interpreter, which this one holds while it traces.

    A step in NumPy gives it up in each operator, and would wait 5 ms each time to have it back.
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
"""The seconds for which a thread holds that lock where others wait for it."""
_OFTEN = 0.02
"""The seconds until the end of a process looks again whether the thread has ended."""
_worker = [_Worker()]


def submit(work: Work) -> None:
    """Have the thread do this, after what was submitted before. It keeps no work alive."""
    _worker[0].submit(work)


def wait_for(end: Callable[[], T]) -> T:
    """The value of `end`, which waits for another process, in work of the thread or elsewhere."""
    return _worker[0].wait(end)


def _after_fork() -> None:
    """A child has no thread; what its parent's thread was doing stays undone in the child."""
    _worker[0].forget_threads()
    _worker[0] = _Worker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
