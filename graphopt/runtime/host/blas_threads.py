"""One thread of BLAS until cores are free, and while something else takes them.

BLAS divides a product among a thread for each core, and these wait for each other by spinning.
Alone on two cores that takes half to two thirds of the time of one thread. Where another process
has a core, each product waits until the scheduler lets both threads run: one of [196, 2304] and
[2304, 256] took 146 ms with two threads and 7 with one, beside eight busy processes.

A thread that has done its part of a product spins for tens of milliseconds more, whether another
product comes or not: beside other processes a U-Net took 3.5 CPU seconds for 37 images and 2.0
with one thread, though all but 44 of its 468 long ops had one.

So the first run of a program has one thread. The next ones have as many as there are if products
took most of the time of the run before, and a core was free meanwhile. An op whose thread had a
core for a part of its time only shows that cores are taken: the rest of that run has one thread. A
limit that a script or its container has (`devices/threads.py`) holds in any case. Outside of the
host form NumPy has as many threads as before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from graphopt.runtime.devices.threads import most_threads

LONG = 2e-3
"""The seconds of an op from which on it shows something."""
CROWDED = 0.7
"""The share of an op's time that its thread had a core, below which cores are taken."""
SPARE, WATCHED = 0.6, 0.1
"""The share of a time that a free core has idled at least, and the seconds of such a time."""
PRODUCTS = 0.6
"""The part of the time of the long ops of a run that products take at least where threads gain."""


class BlasThreads:
    """The threads of BLAS while runs in NumPy are under way."""

    def __init__(self) -> None:
        self.is_crowded = False
        """True when an op has shown so since the last run with all threads began."""
        self._runs = self._alone = 0
        # the time of the last look, the seconds that cores were free by then, and what it found
        self._idled: tuple[float, float, bool] | None = None
        # the libraries with fewer threads, and how many they had
        self._narrowed: list[tuple[Any, int]] = []
        self._lock = threading.RLock()  # a handler of a signal may run a program, too

    @contextmanager
    def watch_run(self, *, has_all: bool) -> Generator[None]:
        """A run is under way in this block, with all threads if it `has_all` and a core is free.

        Several threads add up the terms of a product in another order than one does.
        """
        with self._lock:
            has_all = has_all and self._has_spare_core()
            self.is_crowded = self.is_crowded and not has_all
            self._runs += 1
            self._alone += not has_all
            self._divide()
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                self._alone -= not has_all
                self._divide()

    def judge(self, seconds: float, on_core: float) -> None:
        """An op took so long, of which its thread had a core for `on_core` seconds."""
        if on_core < CROWDED * seconds:
            with self._lock:
                self.is_crowded = True
                self._divide()

    def _has_spare_core(self) -> bool:
        """True when a core was free since this was asked before; True where no system says so.

        It idled, or was taken by another thread of this process.
        """
        now, idled, before = time.perf_counter(), idle_seconds(), self._idled
        if idled is None:
            return True
        idled += time.process_time() - now
        if before is not None and now - before[0] < WATCHED:
            return before[2]
        found = before is not None and idled - before[1] > SPARE * (now - before[0])
        self._idled = now, idled, found
        return found

    def _divide(self) -> None:
        """Give the libraries as many threads as the runs that are under way have."""
        for library, threads in self._narrowed:
            library.set_num_threads(threads)
        self._narrowed = []
        most = 1 if self.is_crowded or self._alone else most_threads()
        if most and self._runs:  # else nothing would give them back
            had = [(each, each.get_num_threads()) for each in _libraries()]
            self._narrowed = [(library, threads) for library, threads in had if threads > most]
            for library, _ in self._narrowed:
                library.set_num_threads(most)


def idle_seconds() -> float | None:
    """The seconds that the cores of this machine have idled; None where the system is not Linux."""
    try:
        ticks = Path("/proc/stat").read_text("ascii").split(maxsplit=5)[4]
        return int(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


blas_threads = BlasThreads()


@cache
def _libraries() -> tuple[Any, ...]:
    """The libraries with BLAS that this process has loaded."""
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
