"""One thread of BLAS until cores are free, and while something else takes them.

BLAS divides a product among a thread for each core, and these wait for each other by spinning.
Alone on two cores that takes half to two thirds of the time of one thread. Where another process
has a core, each product waits until the scheduler lets both threads run: one of [196, 2304] and
[2304, 256] took 146 ms with two threads and 7 with one, beside eight busy processes.

A thread that has done its part of a product spins for tens of milliseconds more, whether another
product comes or not: beside other processes a U-Net took 3.5 CPU seconds for 37 images and 2.0
with one thread, though all but 44 of its 468 long ops had one.

So the host form begins with one thread, and looks at the ops that take long. Some in a row whose
thread had a core for all of their time may mean that cores are free: then as many threads as there
are compute, if the system says that a core idled meanwhile. One whose thread had a core for a part
of its time only shows that they are taken again. A limit that a script or its container has
(`devices/threads.py`) holds in any case. Outside of the host form NumPy has as many threads as
before.
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
CROWDED, FREE = 0.7, 0.95
"""The shares of an op's time that its thread had a core, below and above which it shows that."""
ENOUGH = 8
"""The ops in a row that have to show free cores."""
SPARE, WATCHED = 0.6, 0.1
"""The share of a time that a free core has idled at least, and the seconds of such a time."""


class BlasThreads:
    """The threads of BLAS while runs in NumPy are under way."""

    def __init__(self) -> None:
        self.is_crowded = True
        self._runs = self._alone = 0
        # the ops in a row that have shown free cores
        self._free = 0
        # a time, and the seconds that all cores had idled by then
        self._idled: tuple[float, float] | None = None
        # the libraries with fewer threads, and how many they had
        self._narrowed: list[tuple[Any, int]] = []
        self._lock = threading.RLock()  # a handler of a signal may run a program, too

    @contextmanager
    def watch_run(self, *, one: bool = False) -> Generator[None]:
        """A run is under way in this block, with one thread whatever is free if it is to be `one`.

        Several threads add up the terms of a product in another order than one does.
        """
        with self._lock:
            self._runs += 1
            self._alone += one
            self._widen()
            self._narrow()
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                self._alone -= one
                self._widen()
                self._narrow()

    def judge(self, seconds: float, on_core: float) -> None:
        """An op took so long, of which its thread had a core for `on_core` seconds."""
        with self._lock:
            self._free = self._free + 1 if on_core > FREE * seconds else 0
            was_crowded = self.is_crowded
            if was_crowded and self._free >= ENOUGH and not self._has_spare_core():
                self._free = 0
            if on_core < CROWDED * seconds or self._free >= ENOUGH:
                self.is_crowded = not self._free
            if self.is_crowded != was_crowded:
                self._widen()
                self._narrow()

    def _has_spare_core(self) -> bool:
        """True when a core has idled since this was asked before; True where no system says so."""
        now, idled, before = time.perf_counter(), idle_seconds(), self._idled
        if idled is None:
            return True
        if before is not None and now - before[0] < WATCHED:
            return False
        self._idled = now, idled
        return before is not None and idled - before[1] > SPARE * (now - before[0])

    def _narrow(self) -> None:
        most = 1 if self.is_crowded or self._alone else most_threads()
        if most and self._runs and not self._narrowed:  # else nothing would give them back
            had = [(each, each.get_num_threads()) for each in _libraries()]
            self._narrowed = [(library, threads) for library, threads in had if threads > most]
            for library, _ in self._narrowed:
                library.set_num_threads(most)

    def _widen(self) -> None:
        for library, threads in self._narrowed:
            library.set_num_threads(threads)
        self._narrowed = []


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
