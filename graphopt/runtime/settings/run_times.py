"""Wall times of executor runs by program, recorded while a profiler is on."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from graphopt.ir.program import Program


class RunEvent(NamedTuple):
    """A program on a thread: the number of the thread, from 0, and the program's `serial`."""

    thread: int
    program: int


class RunTimes:
    """The seconds of each run, by events in the order in which they first ended."""

    def __init__(self) -> None:
        self.seconds: dict[RunEvent, list[float]] = {}
        self._threads: dict[int, int] = {}
        self._lock = threading.Lock()

    def add(self, program: Program, seconds: float) -> None:
        """Note a run on the calling thread."""
        with self._lock:
            thread = self._threads.setdefault(threading.get_ident(), len(self._threads))
            self.seconds.setdefault(RunEvent(thread, program.serial), []).append(seconds)


_current: RunTimes | None = None


def keep(times: RunTimes | None) -> None:
    """Add later runs to these times, or to none."""
    global _current
    _current = times


def kept_times() -> RunTimes | None:
    """Return the times that runs are added to; None unless a profiler is on."""
    return _current


@contextmanager
def time_run(program: Program) -> Generator[None]:
    """Record the time of the block as a run of the program, if a profiler is on."""
    times, start = _current, perf_counter()
    yield
    if times is not None:
        times.add(program, perf_counter() - start)
