"""The choice of the next form: its table, and invariants of all states of a step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from graphopt.runtime.settings.flags import AUTO, FAST, FULL, HOST
from graphopt.runtime.steps import policy
from graphopt.runtime.steps.policy import (
    BY_OP,
    FROM_RUN,
    GAIN_BY_OP,
    KERNELS,
    NOT_COMPUTED,
    SMALL,
    TINY,
    TOO_LONG,
    Choice,
    Facts,
    History,
    Rival,
    choose,
)
from graphopt_tests.example_counts import share

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "compile-once.md"
BEGUN, CHEAP = History(runs=1), History(runs=2, ended=True, spent=0.1)
SEEDED = Facts(seeded=True)
SEEDED_IN_NUMPY = Facts(seeded=True, on_host=True)
IN_NUMPY, LOOPS = Facts(on_host=True), Facts(on_host=True, loops=True)
AGAIN = {"runs": 2, "ended": True, "spent": 0.6}


def full(rival: Rival | None = None, *also: str) -> History:
    return History([FULL, *also], runs=9, came=FROM_RUN.format(3, 1.5), rival=rival)


TABLE: list[tuple[str, Facts, History, str, str]] = [
    # a program of which NumPy computes each operator
    ("in NumPy: the first run", IN_NUMPY, BEGUN, HOST, ""),
    ("in NumPy: all runs took less than half a compilation", IN_NUMPY, CHEAP, HOST, ""),
    ("in NumPy: they took longer, and it runs again", IN_NUMPY, History(**AGAIN), HOST, FULL),
    (
        "in NumPy: a training of one size, a seventh of a compilation, and it runs again",
        replace(IN_NUMPY, trains=True),
        History(runs=3, ended=True, spent=0.15),
        *(HOST, FULL),
    ),
    (
        "in NumPy: the same, and the training has had other sizes",
        replace(IN_NUMPY, trains=True),
        History(runs=3, ended=True, spent=0.15, others=1.0),
        *(HOST, ""),
    ),
    (
        "in NumPy: a run is over, and those of all processes cost more than compiling",
        IN_NUMPY,
        History(runs=1, ended=True, pays_later=True),
        *(HOST, FULL),
    ),
    (
        "in NumPy: the thread compiles the full form",
        IN_NUMPY,
        History(**AGAIN, thread=FULL),
        HOST,
        "",
    ),
    (
        "in NumPy: the full form does not compile",
        IN_NUMPY,
        History(**AGAIN, error="no memory"),
        HOST,
        "",
    ),
    (
        "in NumPy: NumPy took too long, or refuses an operator",
        IN_NUMPY,
        History(runs=1, left=TOO_LONG),
        FAST,
        "",
    ),
    (
        "in NumPy: the same, and it runs again",
        IN_NUMPY,
        History(runs=2, left=TOO_LONG),
        FAST,
        FULL,
    ),
    ("in NumPy: the same, and the full form is there", IN_NUMPY, full(), FULL, ""),
    # any other
    ("by XLA: the first run", Facts(), BEGUN, FAST, ""),
    ("by XLA: it runs again", Facts(), History(runs=2), FAST, FULL),
    (
        "by XLA: the thread compiles the full form",
        Facts(),
        History(runs=3, thread=FULL),
        FAST,
        "",
    ),
    ("by XLA: the full form is there", Facts(), full(), FULL, ""),
    ("a small program", Facts(size=SMALL - 1), BEGUN, FULL, ""),
    # a training from a seed
    ("a training from a seed: the first run", SEEDED, BEGUN, FAST, ""),
    ("from a seed: NumPy computes each operator", SEEDED_IN_NUMPY, BEGUN, HOST, ""),
    ("from a seed: it runs again", SEEDED, History(runs=2, trained=2), FAST, FULL),
    (
        "from a seed: the full form is there, or on disk",
        SEEDED,
        History([FULL], runs=3, trained=SEEDED.quick_runs),
        FAST,
        "",
    ),
    (
        "from a seed: NumPy refuses an operator",
        SEEDED_IN_NUMPY,
        History(runs=2, trained=2, left=NOT_COMPUTED),
        *(FAST, FULL),
    ),
    (
        "from a seed, in NumPy: twice the price and two seconds are not over, by an estimate",
        SEEDED_IN_NUMPY,
        History(runs=3, trained=SEEDED.quick_runs + 1, thread=FULL),
        *(HOST, ""),
    ),
    (
        "from a seed, in NumPy: a tenth of those runs are over",
        replace(SEEDED_IN_NUMPY, seconds=0.1),
        History(runs=4, ended=True),
        *(HOST, FULL),
    ),
    (
        "from a seed, in NumPy: the same, and the training has had other sizes",
        replace(SEEDED_IN_NUMPY, seconds=0.1),
        History(runs=4, ended=True, others=1.0),
        *(HOST, ""),
    ),
    (
        "from a seed, in NumPy: a third of those of other sizes are over",
        replace(SEEDED_IN_NUMPY, seconds=0.1),
        History(runs=14, ended=True, others=1.0),
        *(HOST, FULL),
    ),
    (
        "from a seed, in NumPy: they are over",
        SEEDED_IN_NUMPY,
        History(runs=5, thread=FULL),
        *(FULL, ""),
    ),
    (
        "from a seed: it has run 8 times, and once more for each 50 operators",
        SEEDED,
        History(runs=3, trained=SEEDED.quick_runs + 1, thread=FULL),
        FULL,
        "",
    ),
    (
        "from a seed: a script has read or written its state",
        SEEDED,
        History(runs=3, trained=3, shared=True),
        FULL,
        "",
    ),
    ("a flag requests the same bits", Facts(same_bits=True, on_host=True), BEGUN, FULL, ""),
    ("replicas, a GPU, calls of Python", Facts(only_full="it calls Python"), BEGUN, FULL, ""),
    # sizes that depend on data
    ("by XLA: sizes depend on data", Facts(), History(runs=1, needs_data=True), BY_OP, ""),
    (
        "in NumPy: sizes depend on data",
        IN_NUMPY,
        History(**AGAIN, needs_data=True),
        *(HOST, BY_OP),
    ),
    (
        "in NumPy: XLA op by op takes less than 0.7 of NumPy's time",
        IN_NUMPY,
        History(**AGAIN, needs_data=True, by_op=0.5),
        *(BY_OP, ""),
    ),
    ("in NumPy: it takes more", IN_NUMPY, History(**AGAIN, needs_data=True, by_op=0.9), HOST, ""),
    (
        "in NumPy: sizes change in a loop, and NumPy takes long",
        LOOPS,
        History(runs=1, needs_data=True, left=TOO_LONG),
        *(HOST, ""),
    ),
    (
        "in NumPy: the same, and NumPy refuses an operator",
        LOOPS,
        History(runs=1, needs_data=True, left=NOT_COMPUTED),
        *(BY_OP, ""),
    ),
    # oneDNN
    ("full form: new", Facts(), full(Rival(runs=20, seconds=60.0)), FULL, ""),
    (
        "full form: it ran for 20 runs and 10 s",
        Facts(),
        full(Rival(runs=21, seconds=11.0)),
        FULL,
        KERNELS,
    ),
    (
        "full form: the one with oneDNN is there, and it is its turn",
        Facts(),
        full(Rival(own=[1.0]), KERNELS),
        KERNELS,
        "",
    ),
    (
        "full form: it is the turn of the one without",
        Facts(),
        full(Rival(own=[1.0], other=[1.0]), KERNELS),
        FULL,
        "",
    ),
    (
        "full form: oneDNN takes less than 0.97 of the time",
        Facts(),
        full(Rival(0.5), KERNELS),
        KERNELS,
        "",
    ),
    ("full form: oneDNN takes more", Facts(), full(Rival(1.1)), FULL, ""),
    ("full form: no operator has a kernel of oneDNN", Facts(), full(Rival(error="none")), FULL, ""),
    # what the flag asks for
    ("`host`", Facts(asked=HOST, on_host=True), History(**AGAIN), HOST, ""),
    (
        "`host`, and NumPy took too long",
        Facts(HOST, on_host=True),
        History(left=TOO_LONG),
        FAST,
        "",
    ),
    ("`host`, and NumPy does not compute it", Facts(asked=HOST), BEGUN, FAST, ""),
    ("`fast`", Facts(asked=FAST, on_host=True), BEGUN, FAST, ""),
    ("`full`", Facts(asked=FULL, on_host=True), BEGUN, FULL, ""),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_the_table(row: tuple[str, Facts, History, str, str]) -> None:
    _, facts, seen, form, thread = row
    found = choose(facts, seen)
    assert (found.form, found.thread) == (form, thread)


def test_the_page() -> None:
    """The page has the table, in this order."""
    shown = {"": "", FULL: "full", BY_OP: "times op by op", KERNELS: "compiles with oneDNN"}
    shown[FULL] = "compiles the full form"
    rows = [f"| {what} | {form} | {shown[thread]} |" for what, _, _, form, thread in TABLE]
    assert "\n".join(rows) in PAGE.read_text("utf-8"), "\n" + "\n".join(rows)


@pytest.mark.parametrize(
    ("facts", "nicer"),
    [
        (SEEDED, 0),
        (replace(SEEDED, size=SMALL - 1), policy.NICER),  # it begins with the full form
        (Facts(), policy.NICER),
        (IN_NUMPY, policy.NICER),
    ],
)
def test_what_a_caller_waits_for_has_its_priority(facts: Facts, nicer: int) -> None:
    """A full form at a counted run of a seeded training has the caller's priority, others less."""
    assert facts.nicer == nicer


# -- every state -----------------------------------------------------------------------------------


@dataclass
class Step:
    """A step, and the events so far."""

    facts: Facts
    seen: History

    @classmethod
    def of(cls, facts: Facts) -> Step:
        return cls(facts, History([HOST] if facts.first[0] == HOST else []))

    @property
    def key(self) -> str:
        return repr(self.seen)

    def copy(self) -> Step:
        seen, rival = copy(self.seen), copy(self.seen.rival)
        if rival is not None:
            rival.own, rival.other = [*rival.own], [*rival.other]
        seen.rival, seen.ready = rival, [*self.ready]
        return Step(self.facts, seen)

    @property
    def ready(self) -> list[str]:
        return cast("list[str]", self.seen.ready)

    def choice(self, left: str = "") -> Choice:
        return choose(self.facts, replace(self.seen, left=left or self.seen.left))

    def keep(self, name: str, *, rival: bool = False) -> None:
        if name not in self.ready:
            self.seen.ready = sorted([*self.ready, name])
            if name == FULL and rival:
                self.seen.rival = Rival()


Event = Callable[[Step], None]


def made(step: Step, left: str, how: str) -> str:
    """Return the caller's form, loading or compiling it if needed; "" where that `raises`."""
    for _ in range(3):
        form = step.choice(left).form
        if form in step.ready:
            return form
        serving = {*step.ready} - ({HOST} if left or step.seen.left else set())
        if form in (FULL, BY_OP) and step.facts.quick_runs:
            serving -= {FAST, HOST}
        assert not serving, f"{form} is compiled while there is {serving}"
        if how == "raises":
            return ""
        # the quick form and the full one are lowered alike
        if how == "data" and form != BY_OP and FAST not in step.ready:
            step.seen.needs_data = True
        else:
            on_disk = how == "disk" and form != BY_OP and step.facts.asked in (AUTO, FULL)
            on_disk = on_disk and not step.facts.quick_runs
            step.keep(FULL if on_disk else form)
    raise AssertionError("a caller compiles again and again")


def submit(step: Step, thread: str) -> None:
    assert not (thread and step.seen.thread)
    step.seen.thread = thread or step.seen.thread


def run(host: str, how: str) -> Event:
    """Make the event of a run that NumPy `ends`, gives up (TOO_LONG) or refuses.

    `how` is the outcome of compiling, if needed. A run that `pays later` ends, too.
    """

    def event(step: Step) -> None:
        seen, rival = step.seen, step.seen.rival
        seen.runs = min(seen.runs + 1, 3)
        seen.trained = min(seen.trained + 1, step.facts.fast_runs + 1)
        if rival is not None:
            rival.runs = min(rival.runs + 1, policy.RUNS + 1)
        choice = step.choice()
        submit(step, choice.thread)
        form = made(step, seen.left, how)
        if form == HOST and host in ("ends", "pays later"):
            seen.ended, seen.spent = True, 1.0
            if host == "pays later":
                seen.pays_later = True
                submit(step, step.choice().thread)
        elif form == HOST and made(step, host, how) not in ("", HOST):
            seen.left = host
        elif rival is not None and KERNELS in step.ready and not choice.is_last:
            (rival.other if form == KERNELS else rival.own).append(1.0)

    return event


def thread(how: str) -> Event:
    """Make the event of a thread's end: success, an error, or data-dependent sizes."""

    def event(step: Step) -> None:
        seen, job = step.seen, step.seen.thread
        seen.thread = ""
        if job == KERNELS and seen.rival is not None:
            seen.rival.error = "no memory" if how == "raises" else ""
            step.keep(FULL if how == "raises" else KERNELS)
        elif not job or FULL in step.ready:
            return
        elif how == "raises":
            seen.error = "no memory"
        # the quick form and the full one are lowered alike
        elif how in ("quick", "slow") and FAST not in step.ready:
            seen.needs_data = True
            if not step.facts.loops and seen.ended:
                seen.by_op = GAIN_BY_OP if how == "quick" else 1.0
                step.keep(BY_OP)
        elif not seen.needs_data:
            step.keep(FULL, rival=True)
        else:  # sizes depend on data, as a caller has found
            seen.by_op = 1.0

    return event


def forked(step: Step) -> None:
    """Fork: a child of the process has no thread."""
    step.seen.thread = ""


def shared(step: Step) -> None:
    """Share the trained state with a script that reads or writes it."""
    step.seen.shared = bool(step.facts.quick_runs)


HOSTS = ("ends", "pays later", TOO_LONG, NOT_COMPUTED)
HOWS = ("well", "raises", "data", "disk")
ENDS = ("well", "raises", "quick", "slow")
EVENTS: list[Event] = [
    *(run(host, how) for host in HOSTS for how in HOWS),
    *(thread(how) for how in ENDS),
    forked,
    shared,
]


def all_facts() -> Iterator[Facts]:
    """Yield all combinations of facts about a step."""
    flags = itertools.product((False, True), repeat=4)
    for same_bits, seeded, on_host, loops in flags:
        for asked in (AUTO, FAST, FULL, HOST):
            for only_full in ("", "it calls Python"):
                for size in (TINY - 1, TINY, SMALL):
                    yield Facts(*(asked, only_full, same_bits, seeded, size, on_host), loops=loops)


def reachable(facts: Facts) -> list[Step]:
    """List the states that a step can reach."""
    first = Step.of(facts)
    found = {first.key: first}
    left = [first]
    while left:
        state = left.pop()
        for event in EVENTS:
            after = state.copy()
            event(after)
            if after.key not in found:
                found[after.key] = after
                left.append(after)
    return [*found.values()]


@pytest.fixture(scope="module")
def states() -> Iterator[list[Step]]:
    """Collect the states of all steps, with few runs until oneDNN is tried."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(policy, "RUNS", 1)
        patched.setattr(policy, "SECONDS", -1.0)
        patched.setattr(policy, "TURNS", 1)
        patched.setattr(policy, "SEEDED_RUNS", 2)
        patched.setattr(policy, "SEEDED_RUNS_PER_OP", 0.0)
        patched.setattr(policy, "SEEDED_PATIENCE", 2)
        patched.setattr(policy, "CHILD", 0.0)
        # facts that decide the same
        distinct = {(f.asked, f.first, f.loops, f.quick_runs): f for f in all_facts()}
        yield [state for facts in distinct.values() for state in reachable(facts)]


@pytest.mark.exhaustive
def test_a_caller_compiles_only_what_it_needs(states: list[Step]) -> None:
    """The invariants of `made` hold in each run of each state, however NumPy and XLA end it."""
    assert len(states) > 300, len(states)
    for state in states:
        for event in EVENTS:
            event(state.copy())


@pytest.mark.every(9)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("how", ["well", "data"])
@pytest.mark.parametrize("end", ENDS)
def test_the_full_form_is_reached(states: list[Step], host: str, how: str, end: str) -> None:
    """Further runs reach a form that stays: the full one, or another for a final reason."""
    for state in share(states):
        step = state.copy()
        for _ in range(12):
            run(host, how)(step)
            thread(end)(step)
        last = step.choice()
        assert last.is_last, (last, step)
        assert last.form in step.ready
        seen = step.seen
        if last.form not in (FULL, KERNELS):
            is_final = step.facts.asked in (FAST, HOST) or seen.needs_data or seen.error
            assert is_final, (last, step)


def test_reports_promise_what_comes(states: list[Step]) -> None:
    """A form that stays awaits none; any other form names the awaited one."""
    awaits = (
        "run has the full form compiled",
        "is being compiled",
        "tried op by op",
        "tried later",
        "has the full form",
    )
    for state in states:
        choice = state.choice()
        if choice.form in state.ready:
            assert choice.words.endswith(awaits) is not choice.is_last, choice


def test_forms_of_a_seeded_training_are_counted(states: list[Step]) -> None:
    """The first form lasts for the same runs, whatever is ready and whatever a thread does."""
    for state in states:
        seen, facts = state.seen, state.facts
        if facts.quick_runs and not (seen.needs_data or seen.error):
            in_numpy = facts.first[0] == HOST and not seen.left
            runs, count = (
                (seen.runs, facts.host_runs) if in_numpy else (seen.trained, facts.fast_runs)
            )
            is_quick = runs <= count and not seen.shared
            assert (state.choice().form in (HOST, FAST)) is is_quick, state


def test_a_trial_is_awaited_without_a_look_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next check is due after the runs that a trial needs, and later checks are rare."""
    monkeypatch.setattr(policy, "RUNS", 20)
    monkeypatch.setattr(policy, "SECONDS", 10.0)
    for rival, held in (
        (Rival(runs=1), 20),
        (Rival(runs=20), 1),
        (Rival(runs=21, seconds=1.0), 2),
        (Rival(runs=1000, seconds=1.0), 125),
        (Rival(runs=1000, seconds=11.0), 1),
        (Rival(0.5, runs=1), 1),
    ):
        assert choose(Facts(), full(rival)).holds == held, rival
