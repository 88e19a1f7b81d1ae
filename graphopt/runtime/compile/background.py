"""A thread for work whose end no caller needs: it does one thing after the other, in order.

The thread ends with the process, which waits for the work under way: XLA cannot stop a compilation,
and aborts a process that leaves while it compiles. Work that has not begun is left undone.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from graphopt.display.progress import AFTER
from graphopt.runtime.settings.progress import say


class Work(Protocol):
    """Something to do; it keeps its errors to itself."""

    def work(self) -> None:
        """Do it."""
        ...


class _Worker:
    """The thread, from its first work on, and what it has to do."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[weakref.ref[Work] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = False

    def submit(self, work: Work) -> None:
        """Have it done, unless it is gone by then."""
        self._queue.put(weakref.ref(work))
        with self._lock:
            if any(thread.is_alive() for thread in self._threads):
                return
            thread = threading.Thread(target=self._run, name="graphopt-worker", daemon=True)
            self._threads.append(thread)
            atexit.register(self.close)
            with suppress(RuntimeError):  # none is started while the process ends
                thread.start()

    def close(self) -> None:
        """Wait for what is under way; a Ctrl-C meanwhile ends the process at once."""
        self._closing = True
        self._queue.put(None)
        try:
            for thread in filter(threading.Thread.is_alive, self._threads):
                thread.join(AFTER)
                if thread.is_alive():
                    say("the process ends when what it compiles is compiled")
                thread.join()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)

    def _run(self) -> None:
        while (held := self._queue.get()) is not None and not self._closing:
            work = held()
            if work is not None:
                work.work()
            del work
        # an interrupt while one began may have left another thread, which ends with this
        self._queue.put(None)


_worker = [_Worker()]


def submit(work: Work) -> None:
    """Have the thread do this, after what was submitted before. It keeps no work alive."""
    _worker[0].submit(work)


def _after_fork() -> None:
    """A child has no thread; what its parent's thread was doing stays undone in the child."""
    _worker[0] = _Worker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
