"""The rival of a step's full form: the same step with kernels of oneDNN, if that is quicker here.

Where oneDNN is quicker than XLA depends on the machine and on what surrounds an op, so it is
measured where it runs. A step that has run for a while is compiled again, in a thread, with the
kernels that `choose-kernel` chooses. The two forms then alternate, and the quicker one goes on.
Both make the same state of the same state, but for rounding. The outcome is kept on disk, and the
next process begins with it.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

from graphopt.display.units import several
from graphopt.runtime.compile.background import submit
from graphopt.runtime.disk.directory import most_bytes
from graphopt.runtime.disk.entries import read_entry, write_entry
from graphopt.runtime.disk.known import Known
from graphopt.runtime.steps.tiers import Made

RUNS, SECONDS = 20, 10.0
"""A step that has run less often, or for a shorter time, has no rival yet."""
TURNS = 7
"""The runs of each form that are timed, after one that is not."""
GAIN = 0.97
"""A rival that takes more of the time is not worth other rounding."""
FOLDER = "rivals"
NOT_YET = "oneDNN is tried later"
"""The report of a rival that is not settled."""


class Outcome:
    """The time of the rival as a part of the other form's, as an earlier process measured it.

    A program that is not on disk has none, and keeps none.
    """

    def __init__(self, known: Known | None) -> None:
        self._file = None if known is None else known.folder.parent / FOLDER / known.name

    def read(self) -> float | None:
        """The ratio; None where nothing is known."""
        if self._file is None:
            return None
        return read_entry(self._file, lambda payload: float(json.loads(payload)))

    def write(self, ratio: float) -> None:
        """Keep a ratio, if there is room on the disk."""
        if self._file is not None:
            write_entry(self._file, json.dumps(ratio).encode(), most_bytes())


class Rival:
    """The rival of one step from its first run to its verdict.

    `form` is that of the step, for reports. `make` compiles the rival, in a thread; it returns None
    where no op has a kernel.
    """

    def __init__(self, form: object, outcome: Outcome, make: Callable[[], Made | None]) -> None:
        self.settled = False
        self.said = ""
        self._form = form
        self._outcome = outcome
        self._make = make
        self._made: Made | None = None
        self._known = outcome.read()
        if self._known is not None and self._known > GAIN:
            self._settle(f"oneDNN was tried, which takes {self._known:.2f} of the time")
        self._runs = 0
        self._first = 0.0
        self._submitted = False
        self._own: list[float] = []
        self._other: list[float] = []
        # of the run under way: its thread, its start, and where its time goes
        self._timed: tuple[int, float, list[float]] | None = None

    def next(self) -> Made | None:
        """The rival when the next run is its turn; None for the step itself."""
        made = self._made
        if made is None:
            self._wait()
            return None
        if self._known is not None:
            self._won(made, self._known)
            return made
        is_own = len(self._own) <= len(self._other)
        times = self._own if is_own else self._other
        self._timed = threading.get_ident(), time.perf_counter(), times
        return None if is_own else made

    def ended(self, results: Any) -> None:
        """Take the time of the run that `next` was called for, when its results are there."""
        made, timed = self._made, self._timed
        if made is None or timed is None or self.settled:
            return
        jax.block_until_ready(results)
        thread, began, times = timed
        if thread != threading.get_ident():  # another run began meanwhile
            return
        self._timed = None
        times.append(time.perf_counter() - began)
        if len(self._other) > TURNS:
            self._judge(made)

    def winner(self) -> Made | None:
        """The rival if it has won, when it is settled; None for the step itself."""
        return self._made

    def work(self) -> None:
        """Compile, in the thread. Whatever is wrong with the rival, the step does without it."""
        try:
            made = self._make()
        except Exception as error:
            self._settle(f"with oneDNN it did not compile: {error}")
        else:
            self._made = made
            if made is None:
                self._settle("no operator has a kernel of oneDNN")

    def _wait(self) -> None:
        """Have the rival compiled when the step has run for long enough."""
        if self._submitted:
            return
        self._runs += 1
        now = time.monotonic()
        self._first = self._first or now
        # what an earlier process measured needs no more than a second run
        known = self._known is not None and self._runs > 1
        if known or (self._runs > RUNS and now - self._first > SECONDS):
            self._submitted = True
            submit(self)

    def _judge(self, made: Made) -> None:
        pairs = zip(self._other[1:], self._own[1:], strict=False)
        ratio = statistics.median(other / own for other, own in pairs)
        self._outcome.write(ratio)
        if ratio <= GAIN:
            self._won(made, ratio)
        else:
            self._made = None
            self._settle(f"oneDNN was tried, which takes {ratio:.2f} of the time")

    def _won(self, made: Made, ratio: float) -> None:
        operators = several(made.kernels, "operator")
        self._settle(f"oneDNN computes {operators}, in {ratio:.2f} of the time")

    def _settle(self, said: str) -> None:
        self.said = said
        self.settled = True
        self._make = _nothing  # and what it holds of the program

    def __str__(self) -> str:
        """The form of the step and what is known of its rival, for reports."""
        return f"{self._form}; {self.said or NOT_YET}"


def _nothing() -> Made | None:
    return None
