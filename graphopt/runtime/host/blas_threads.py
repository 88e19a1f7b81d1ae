"""One thread of BLAS until cores are free, and while other processes take them.

BLAS divides a product among one thread per core, and these wait for each other by spinning. On two
idle cores that takes half to two thirds of the time of one thread. Where another process has a
core, each product waits until the scheduler lets both threads run: one of [196, 2304] and
[2304, 256] took 146 ms with two threads and 7 with one, beside eight busy processes.

A thread that has done its part of a product spins for tens of milliseconds more, whether another
product comes or not: beside other processes a U-Net took 3.5 CPU seconds for 37 images and 2.0
with one thread, though all but 44 of its 468 long ops had one.

So the first run of a program has one thread. Later runs have all threads if products took most of
the time of the run before, and a core was free meanwhile. An op whose thread had a core for only
part of its time shows that cores are taken: the rest of that run has one thread. A limit that a
script or its container sets (`devices/threads.py`) holds in any case. Outside of the host form
NumPy keeps its threads.
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
"""The shortest op, in seconds, whose time on a core is significant."""
CROWDED = 0.7
"""The cores are crowded if an op's thread ran for a smaller share of the op's time."""
SPARE, WATCHED = 0.6, 0.1
"""A core is free if it idled for more than this share of at least so many seconds."""
PRODUCTS = 0.6
"""Threads help a run whose products take more than this share of the time of its long ops."""


class BlasThreads:
    """The threads of BLAS during runs in NumPy."""

    def __init__(self) -> None:
        self.is_crowded = False
        """True when an op found the cores crowded since the last run with all threads began."""
        self._runs = self._alone = 0
        # the time of the last check, the idle seconds of all cores by then, and the check's result
        self._idled: tuple[float, float, bool] | None = None
        # the libraries limited to fewer threads, with their former numbers
        self._narrowed: list[tuple[Any, int]] = []
        self._lock = threading.RLock()  # a signal handler may run a program, too

    @contextmanager
    def watch_run(self, *, has_all: bool) -> Generator[None]:
        """Count the block as a run, with all threads if `has_all` and a core is free.

        Several threads sum the terms of a product in another order than one thread.
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
        """Reduce the threads if an op's thread had a core for too little of the op's time."""
        if on_core < CROWDED * seconds:
            with self._lock:
                self.is_crowded = True
                self._divide()

    def _has_spare_core(self) -> bool:
        """Return whether a core was free since the last call; True if the system cannot say.

        A core counts as free if it idled, or ran another thread of this process.
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
        """Limit the threads of the libraries as the current runs require."""
        for library, threads in self._narrowed:
            library.set_num_threads(threads)
        self._narrowed = []
        most = 1 if self.is_crowded or self._alone else most_threads()
        if most and self._runs:  # without a run, no later call would restore them
            had = [(each, each.get_num_threads()) for each in _libraries()]
            self._narrowed = [(library, threads) for library, threads in had if threads > most]
            for library, _ in self._narrowed:
                library.set_num_threads(most)


def idle_seconds() -> float | None:
    """Read the seconds that this machine's cores have idled; None unless it runs Linux."""
    try:
        ticks = Path("/proc/stat").read_text("ascii").split(maxsplit=5)[4]
        return int(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


blas_threads = BlasThreads()


@cache
def _libraries() -> tuple[Any, ...]:
    """List the BLAS libraries that this process has loaded."""
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
