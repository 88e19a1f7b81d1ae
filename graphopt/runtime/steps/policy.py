"""The choice of the form of a step that runs next: one function without threads, clocks or JAX.

A form is a way to compute a step. All are made from one optimized program: the same passes, the
same state, the same random numbers.

- `host`: NumPy computes one op after the other. Nothing is compiled. Programs have it whose ops
  NumPy computes and, in a training that is small enough, differentiates.
- `fast`: XLA's own code generation at its lowest level, compiled in a fraction of the time.
- `full`: XLA's optimized code. The first two take two to five times as long to run, and round
  differently.
- `op by op`: XLA compiles each op by itself. It replaces both where sizes depend on data.
- `oneDNN`: the full form with kernels of oneDNN, where that was measured to be quicker.

A step begins with one form. A thread compiles the next one, which takes over between two runs. A
caller waits for a form only where no form that is ready serves its run. A size that never recurs
costs no more than its first form. A training from a seed must print the same numbers in each run of
a script, so no time decides there: the full form takes over at a counted run, and a caller waits
for it. docs/how-to/compile-once.md has the function as a table.
"""

from __future__ import annotations

import statistics
from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from graphopt.display.units import several
from graphopt.runtime.settings.flags import AUTO, FAST, FULL, HOST

BY_OP, KERNELS = "op by op", "oneDNN"

SMALL = 100
"""A program with fewer operators compiles at once: its quick form takes about as long as its full
one.

A derivative counts as two more copies of its program.
"""
TINY = 12
"""A program with fewer operators has no host form: it compiles in a fraction of a second."""
PATIENCE, EARLIER = 0.5, 0.3
"""A thread starts to compile once NumPy has taken `PATIENCE` of the compile time. For the first
sizes of a training, which are likely to be its only ones, that is multiplied by `EARLIER`."""
SEEDED_RUNS, SEEDED_RUNS_PER_OP = 8, 0.02
"""The quick runs of a seeded training before the full form, plus those for each operator: about as
many as take the compile time."""
SEEDED_PATIENCE, SEEDED_MOST, CHILD = 2, 1000, 2.0
"""The NumPy runs of one size, as a multiple of the compile time; the most such runs; and the
seconds before XLA starts in a child process, for imports, passes and tracing."""
SEEDED_BEGIN, SEEDED_FIRST = 0.35, 0.1
"""The share of those runs after which compiling starts: late enough to skip rare sizes, and early
enough for the full form to be ready when it is due. The second number is for the first sizes of a
training, which are likely to be its only ones."""
NICER = 5
"""The difference in niceness between a compiling child process and this one."""
GAIN_BY_OP = 0.7
"""XLA's ops replace NumPy if they take at most this share of its time."""
RUNS, SECONDS = 20, 10.0
"""A step with fewer runs, or fewer seconds, is not compiled with oneDNN yet."""
TURNS = 7
"""The timed runs with and without oneDNN, after one untimed run of each."""
GAIN = 0.97
"""A form with oneDNN that takes a larger share of the time is not worth the other rounding."""
TOO_LONG, NOT_COMPUTED = "NumPy took too long", "NumPy does not compute it"
"""The reasons to leave the host form."""
ON_DISK, FROM_RUN = "it was on disk", "from run {} on, after {:.1f} s in a thread"
"""The ways a full form came to be ready, unless a caller compiled it."""
NOT_YET = "oneDNN is tried later"
"""The line in a report for a step that may be tried with oneDNN later."""


@dataclass(frozen=True)
class Facts:
    """The properties of a step, and the settings with which it began."""

    asked: str = AUTO
    only_full: str = ""
    """The reason to have only the full form; "" if there are others."""
    same_bits: bool = False
    """True when a flag requests the same bits in every run."""
    seeded: bool = False
    """True for a seeded training."""
    size: int = SMALL
    """The number of operators that XLA gets."""
    on_host: bool = False
    """True when NumPy computes the ops, within a known time."""
    price: float = 1.0
    """The approximate seconds that XLA takes to compile the step."""
    seconds: float = 1.0
    """The approximate seconds of a training step in NumPy, the same in every run of a script."""
    trains: bool = False
    """True for a step that changes state, and so is likely to run often."""
    loops: bool = False
    """True for a step with loops, where sizes may change."""

    @property
    def is_small(self) -> bool:
        """True for a step that XLA compiles in a fraction of a second."""
        return self.size < SMALL

    @cached_property
    def first(self) -> tuple[str, str]:
        """The form with which a step begins, and the reason."""
        if self.only_full:
            return FULL, self.only_full
        if self.asked == HOST and not self.on_host:
            return FAST, "it has no host form"
        if self.asked != AUTO:
            return self.asked, "it was requested"
        if self.same_bits:
            return FULL, "a flag requests the same bits in every run"
        if self.size >= TINY and self.on_host:
            return HOST, "NumPy computes it before it is compiled"
        if self.is_small:
            return FULL, "it is small, and compiles quickly"
        return FAST, "it takes long to compile"

    @cached_property
    def quick_runs(self) -> int:
        """The runs of a seeded training before the full form; 0 for other steps.

        Runs in NumPy count for one size, and runs in the quick form for all sizes together.
        """
        first, _ = self.first
        if not (self.seeded and self.asked == AUTO and first != FULL):
            return 0
        return self.host_runs if first == HOST else self.fast_runs

    @property
    def fast_runs(self) -> int:
        """The runs of a seeded training in the quick form."""
        return SEEDED_RUNS + int(SEEDED_RUNS_PER_OP * self.size)

    @property
    def host_runs(self) -> int:
        """The runs of a seeded training in NumPy."""
        runs = round((SEEDED_PATIENCE * self.price + CHILD) / self.seconds)
        return min(max(runs, 1), SEEDED_MOST)

    @property
    def nicer(self) -> int:
        """The steps of priority of a process that compiles the full form below this one.

        A training from a seed waits for it at a counted run, which comes soon in the quick form. On
        a busy core, a lower priority would prolong that wait.
        """
        return 0 if self.quick_runs else NICER

    @property
    def may_be_on_host(self) -> bool:
        """True unless a flag, the size or `only_full` rules out NumPy for the step."""
        if self.only_full:
            return False
        return self.asked == HOST or (
            self.asked == AUTO and not self.same_bits and self.size >= TINY
        )


@dataclass
class Rival:
    """The form with oneDNN, measured against the full form since that took over."""

    known: float | None = None
    """The time relative to the full form's, measured by an earlier process."""
    error: str = ""
    """The reason why there is no such form."""
    operators: int = 0
    """The number of operators that oneDNN computes."""
    runs: int = 0
    """The runs begun since the full form took over, including the run to choose a form for."""
    seconds: float = 0.0
    """The seconds since the full form took over."""
    own: list[float] = field(default_factory=list[float])
    """The times of the full form in the alternating runs."""
    other: list[float] = field(default_factory=list[float])
    """The times of the form with oneDNN."""

    @property
    def ratio(self) -> float | None:
        """Its time divided by the full form's, once that is known."""
        if self.known is None and len(self.other) > TURNS:
            pairs = zip(self.own[1:], self.other[1:], strict=False)
            return statistics.median(other / own for own, other in pairs)
        return self.known


@dataclass
class History:
    """The runs of a step so far, and the forms that were made for it.

    The forms in `ready` can run. The thread makes, or will make, the form named `thread`.
    """

    ready: Container[str] = ()
    thread: str = ""
    runs: int = 0
    """The runs begun, including the run to choose a form for."""
    trained: int = 0
    """The runs begun for all sizes of the program."""
    shared: bool = False
    """True when a script has read or written the trained state, as for a checkpoint. A process that
    resumes from it has no quick runs, so this one has none from then on."""
    ended: bool = False
    """True when a run in NumPy has ended."""
    spent: float = 0.0
    """The seconds of all runs in NumPy."""
    others: float = 0.0
    """The seconds of NumPy's runs for other sizes of the program."""
    pays_later: bool = False
    """True when NumPy's runs, in all processes, have cost more than compiling would."""
    left: str = ""
    """The reason for leaving NumPy: TOO_LONG or NOT_COMPUTED."""
    came: str = ""
    """The way the full form came to be ready: ON_DISK, or FROM_RUN with its numbers."""
    error: str = ""
    """The reason why there is no full form: its compile error."""
    needs_data: bool = False
    """True when sizes depend on data, so there is neither a quick form nor a full one."""
    by_op: float | None = None
    """XLA's measured time op by op, relative to NumPy's."""
    rival: Rival | None = None
    """The form with oneDNN; None if the full form has no rival."""


class Choice(NamedTuple):
    """The form of the next run, the form that a thread makes, and the line for reports.

    If the form is not ready, the caller loads or makes it. The last form is never left, except
    after a failure of NumPy.
    """

    form: str
    words: str
    thread: str = ""
    is_last: bool = False
    holds: int = 1
    """The number of runs that keep this choice; choosing would slow down a small step."""


def choose(facts: Facts, seen: History) -> Choice:
    """Choose the form of the next run."""
    first, why = facts.first
    in_numpy = first == HOST and not seen.left
    is_quick = facts.quick_runs > 0 and not seen.shared
    if is_quick and in_numpy:
        is_quick = seen.runs <= facts.host_runs
    elif is_quick:
        is_quick = seen.trained <= facts.fast_runs
    if FULL in seen.ready and not is_quick:
        return _full(facts, seen)
    if seen.needs_data and not (is_quick and in_numpy):
        return _op_by_op(facts, seen)
    if first == FULL:
        return Choice(FULL, f"{FULL}: {why}")
    if facts.quick_runs and not seen.error:
        return _choose_seeded(facts, seen, is_quick=is_quick)
    form = FAST if first == HOST and seen.left else first
    if facts.asked != AUTO:
        return Choice(form, f"{form}: {why if form == first else seen.left}", is_last=True)
    if seen.error:
        return Choice(form, f"{form}: the full form did not compile: {seen.error}", is_last=True)
    if seen.thread:
        return Choice(form, f"{form}: the full form is being compiled")
    patience = PATIENCE * (EARLIER if facts.trains and not seen.others else 1)
    is_cheap = form == HOST and seen.spent < patience * facts.price
    is_due = (seen.runs > 1 and not is_cheap) or (seen.pays_later and seen.ended)
    which = "a later" if is_cheap else "a second"
    return Choice(form, f"{form}: {which} run has the full form compiled", FULL if is_due else "")


def _choose_seeded(facts: Facts, seen: History, *, is_quick: bool) -> Choice:
    """Choose the form of a seeded training: the first one for a fixed number of runs.

    The number is the same in each run of a script. The forms round differently, so no run uses the
    full form early because it is ready, nor the first one because the full form is not.
    """
    if not is_quick:
        return Choice(FULL, f"{FULL}: {_why_full(seen)}")
    form = FAST if seen.left else facts.first[0]
    runs = facts.host_runs if form == HOST else facts.fast_runs
    words = f"{form}: it trains from a seed, and run {runs + 1} has the full form"
    begin = SEEDED_BEGIN if seen.others else SEEDED_FIRST
    is_cheap = form == HOST and seen.runs < begin * runs
    is_made = seen.thread or seen.needs_data or FULL in seen.ready
    is_due = seen.runs > 1 and not (is_cheap or is_made)
    return Choice(form, words, FULL if is_due else "")


def _why_full(seen: History) -> str:
    why = "its state was read or written" if seen.shared else "has had its quick runs"
    return f"it trains from a seed, and {why}"


def _op_by_op(facts: Facts, seen: History) -> Choice:
    """Choose the form of a step whose sizes depend on data.

    Each op is an XLA program, compiled again for each new size. NumPy compiles nothing, so it goes
    on unless XLA's ops are quicker by more than new sizes are likely to cost. Where sizes change in
    each step of a loop, as in a decoder, it always goes on.
    """
    first, why = facts.first
    if first != HOST or facts.quick_runs:
        return Choice(BY_OP, "", is_last=True)
    if seen.left and not (facts.loops and seen.left == TOO_LONG):
        return Choice(BY_OP, f"{BY_OP}: {seen.left}", is_last=True)
    if facts.asked == HOST:
        return Choice(HOST, f"{HOST}: {why}", is_last=True)
    if facts.loops:
        why = "sizes change in a loop, and NumPy compiles nothing for them"
        return Choice(HOST, f"{HOST}: {why}", is_last=True)
    if seen.by_op is not None:
        if seen.by_op <= GAIN_BY_OP:
            words = f"{BY_OP}: XLA takes {seen.by_op:.2f} of the time of NumPy"
            return Choice(BY_OP, words, is_last=True)
        words = f"{HOST}: op by op, XLA takes {seen.by_op:.2f} of its time"
        return Choice(HOST, words, is_last=True)
    if seen.error:
        return Choice(HOST, f"{HOST}: op by op, it did not run: {seen.error}", is_last=True)
    # the thread, or a caller before any run had ended, has found the sizes to depend on data
    is_due = not seen.thread and seen.ended and seen.runs > 1
    return Choice(HOST, f"{HOST}: XLA is tried op by op", BY_OP if is_due else "")


def _full(facts: Facts, seen: History) -> Choice:
    """Choose between the full form and the one with oneDNN.

    Whether oneDNN is quicker than XLA depends on the machine and on the ops around a kernel, so it
    is measured in place: a step that has run for a while is compiled again with the kernels that
    `choose-kernel` chooses, and the two forms alternate.
    """
    why = _why_full(seen) if facts.quick_runs else seen.came or facts.first[1]
    words = f"{FULL}: {why}"
    rival = seen.rival
    if rival is None:
        return Choice(FULL, words, is_last=True)
    if rival.error:
        return Choice(FULL, f"{words}; {rival.error}", is_last=True)
    if rival.known is not None or rival.other:
        ratio = rival.ratio
        if ratio is not None and ratio > GAIN:
            words += f"; oneDNN was tried, which takes {ratio:.2f} of the time"
            return Choice(FULL, words, is_last=True)
        if ratio is not None and KERNELS in seen.ready:
            computed = several(rival.operators, "operator")
            words += f"; oneDNN computes {computed}, in {ratio:.2f} of the time"
            return Choice(KERNELS, words, is_last=True)
    words = f"{words}; {NOT_YET}"
    if KERNELS in seen.ready:
        return Choice(FULL if len(rival.own) <= len(rival.other) else KERNELS, words)
    runs, seconds = (1, 0.0) if rival.known is not None else (RUNS, SECONDS)
    if seen.thread:
        return Choice(FULL, words)
    if rival.runs > runs and rival.seconds > seconds:
        return Choice(FULL, words, KERNELS)
    left = runs + 1 - rival.runs
    # look again after an eighth of the runs waited so far
    return Choice(FULL, words, holds=left if left > 0 else max(rival.runs // 8, 1))
