"""Compiled programs that a runner keeps: bounded, and dropped with the program.

The key of an entry is (program, version, feeds, fetches). It does not keep its program alive; when
the user drops the program, its entries go too. Beyond `MOST_COMPILED` entries the least recently
used is evicted.

A program whose fetches change from run to run is not compiled for each of them. An executable with
all of these fetches serves, and so does one that lacks only state, which is read from the scope
after the step. The first fetches are compiled with measures that cost nothing beside them
(`measures`), and a training loop keeps running that executable. For other fetches, all fetches so
far are compiled together, and from the third time on some of the variables after these as well,
twice as many each time: a user who fetches one variable after another compiles only a few times.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from graphopt.errors import GraphoptError
from graphopt.ir.program import Program
from graphopt.passes.padding.dims import CannotPad
from graphopt.runtime.settings.progress import (
    CHANGED_PROGRAM,
    FEED_SHAPE,
    NEW_PROGRAM,
    OTHER_FEEDS,
    OTHER_FETCHES,
)
from graphopt.runtime.state.arrays import Array, Arrays, Feeds
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.steps.measures import fetchable, measures

if TYPE_CHECKING:
    from graphopt.lowering.plan import Replicated
    from graphopt.runtime.compile.compiled import Compiled
    from graphopt.runtime.state.scope import Scope
    from graphopt.runtime.steps.executable import Executable, Executables

Names = tuple[str, ...]
# a program's serial number and version, and all else that a compilation depends on
Group = tuple[int, int, Hashable]
MOST_COMPILED = 64
MOST_REPORTED = 16
"""The most compilations for other fetches in a report, the latest ones."""


class OutputSubset:
    """Some fetches of an executable that has more, and some of its state after the step.

    `places` holds the positions of fetches, and the names of state variables.
    """

    def __init__(self, executable: Executable, places: Sequence[int | str]) -> None:
        self.executable = executable
        self.places = tuple(places)
        self._reads = any(isinstance(place, str) for place in self.places)

    @property
    def replicated(self) -> Replicated:
        """The executable's replicated module."""
        return self.executable.replicated

    @property
    def compiled(self) -> Compiled:
        """The executable's compiled program."""
        return self.executable.compiled

    def __call__(
        self, feeds: Feeds, scope: Scope, unpadded: Callable[[], Feeds] | None = None
    ) -> Arrays:
        """Run a step of the executable, and select its outputs."""
        if not self._reads:
            found = self.executable(feeds, scope, unpadded)
            return tuple([found[place] for place in self.places if isinstance(place, int)])
        with scope.lock:  # so that the state belongs to this step
            found = self.executable(feeds, scope, unpadded)
            return tuple([self._value(found, place, scope) for place in self.places])

    def _value(self, found: Arrays, place: int | str, scope: Scope) -> Array:
        if isinstance(place, int):
            return found[place]
        slot = scope.find_var(place)
        assert slot is not None, place
        return slot.read()


Runnable: TypeAlias = "Executable | OutputSubset"
Ready: TypeAlias = "Callable[[], Runnable | None]"


def ready_of(executable: Runnable) -> Ready:
    """Build a function that returns the step's executable as long as that is kept."""
    if not isinstance(executable, OutputSubset):
        return weakref.ref(executable)
    held, places = weakref.ref(executable.executable), executable.places

    def again() -> OutputSubset | None:
        found = held()
        return None if found is None else OutputSubset(found, places)

    return again


def subset_of(executable: Executable, compiled: Names, names: Names) -> Runnable:
    """Select fetches from an executable with others; a missing fetch is read from the state."""
    if compiled == names:
        return executable
    at = {name: place for place, name in enumerate(compiled)}
    return OutputSubset(executable, [at.get(name, name) for name in names])


def state_of(compiled: Compiled) -> frozenset[str]:
    """Collect the variables whose value in the scope after a step is the step's own.

    Return an empty set where replicas have separate values, for several steps in one, and for steps
    that call Python, which may wait for another thread that uses the scope.
    """
    plan = compiled.plan
    if compiled.compilation.data_parallel or plan.steps > 1 or compiled.calls_python:
        return frozenset()
    return frozenset(n for port in (*plan.read_only, *plan.written) for n in port.variables)


class KeptPrograms:
    """The compiled programs, by program, and the reasons for each."""

    def __init__(self, most: int = MOST_COMPILED) -> None:
        self.reasons: Counter[str] = Counter()
        self.reason = NEW_PROGRAM
        """The reason for the current compilation."""
        self.compiled_for: deque[str] = deque(maxlen=MOST_REPORTED)
        """Descriptions of the latest compilations for other fetches."""
        self._entries: Bounded[tuple[Group, Names], Executables] = Bounded(most)
        # For each group, the fetches requested so far and the lock of its compilations, which
        # threads that start at once share. An item is dropped with its group's last entry, or with
        # the program.
        self._requested: dict[Group, tuple[dict[str, None], threading.RLock]] = {}
        # a finalizer for each program with entries
        self._watched: dict[int, weakref.finalize[..., Program]] = {}

    def all(self) -> list[Executables]:
        """List all kept executables."""
        return list(self._entries.values())

    def stats(self, compiled: Sequence[Executables]) -> dict[str, int]:
        """Count compilations by reason; `compiled` lists all that are kept now."""
        shapes = sum(max(each.shapes - 1, 0) for each in compiled)
        found = dict(self.reasons) | {FEED_SHAPE: shapes}
        return {reason: count for reason, count in found.items() if count}

    def find(
        self,
        program: Program,
        feeds: Hashable,
        names: Names,
        rows: int,
        make: Callable[[Names], Executables],
        *,
        alone: bool = False,
        shipped: bool = False,
    ) -> tuple[Executables, Names]:
        """Find the program compiled for these fetches, or `make` it; return its fetches, too.

        Fetches that are not its own are state (`state_of`). `feeds` is all else on which a
        compilation depends, and `rows` stands for open sizes. With `alone` no other fetches are
        compiled with these; a `shipped` program has only its own.
        """
        group = program.serial, program.version, feeds
        requested, lock = self._requested.setdefault(group, ({}, threading.RLock()))
        with lock:
            served = names if alone else self.serving(group, names)
            found = self._entries.use((group, served)) if served is not None else None
            if served is not None and found is not None:
                return found, served
            if alone:
                return self._make(program, group, names, names, make)
            found_with_state = self._with_state(program, group, names)
            if found_with_state is not None:
                return found_with_state
            requested |= dict.fromkeys(names)
            # a shipped program was compiled for exactly its first fetches
            wanted, sets = names, self._sets(group)
            if names and (sets or not shipped):
                wanted = _choose_fetches(
                    program, tuple(requested) if sets else names, rows, len(sets)
                )
            return self._make(program, group, names, wanted, make)

    def _sets(self, group: Group) -> list[Names]:
        """List the kept sets of fetches of a program and its feeds."""
        return [names for one, names in list(self._entries) if one == group]

    def serving(self, group: Group, names: Names) -> Names | None:
        """Find the smallest kept set of fetches that includes these; None without one."""
        if (group, names) in self._entries:
            return names
        fits = [each for each in self._sets(group) if set(names) <= set(each)]
        return min(fits, key=len, default=None)

    def _with_state(
        self, program: Program, group: Group, names: Names
    ) -> tuple[Executables, Names] | None:
        """Find a compiled program that lacks only state among these fetches; None without one."""
        block = program.global_block()
        state = {n for n in names if block.has_var(n) and block.var(n).persistable}
        if not state:
            return None
        served = self.serving(group, tuple([name for name in names if name not in state]))
        found = None if served is None else self._entries.use((group, served))
        if found is None or served is None or not state <= state_of(found.compiled):
            return None
        return found, served

    def _make(
        self,
        program: Program,
        group: Group,
        names: Names,
        wanted: Names,
        make: Callable[[Names], Executables],
    ) -> tuple[Executables, Names]:
        self._watch(program)
        sets = self._sets(group)
        self.reason = OTHER_FETCHES if sets else self._reason(group)
        new = [name for name in names if all(name not in each for each in sets)]
        try:
            found = make(wanted)
        except (GraphoptError, NotImplementedError, CannotPad):
            if wanted == names:
                raise
            # one of the additional variables cannot be fetched
            found, wanted = make(names), names
        self.reasons[found.reason] += 1
        if found.reason == OTHER_FETCHES:
            self.compiled_for.append(_report_line(new, wanted))
        for gone, _ in self._entries.keep((group, wanted), found):
            if not self._sets(gone):
                self._requested.pop(gone, None)
        return found, wanted

    def _reason(self, group: Group) -> str:
        """Name the reason for the first compilation of a group."""
        known = [each for each, _ in list(self._entries)]
        if any(each[:2] == group[:2] for each in known):
            return OTHER_FEEDS
        return CHANGED_PROGRAM if any(each[0] == group[0] for each in known) else NEW_PROGRAM

    def _watch(self, program: Program) -> None:
        """Forget the entries of a program when the program is garbage-collected."""
        if program.serial not in self._watched:
            mine: weakref.ref[KeptPrograms] = weakref.ref(self)
            self._watched[program.serial] = weakref.finalize(program, _forget, mine, program.serial)
            self._watched[program.serial].atexit = False

    def forget(self, serial: int) -> None:
        """Release the entries of one program."""
        self._watched.pop(serial, None)
        for key in [key for key in list(self._entries) if key[0][0] == serial]:
            del self._entries[key]
        for group in [group for group in list(self._requested) if group[0] == serial]:
            del self._requested[group]


def _choose_fetches(program: Program, names: Names, rows: int, known: int) -> Names:
    """Choose the fetches to compile with these; `known` counts the sets compiled before."""
    found = dict.fromkeys(names + tuple(measures(program, names, rows, first=not known)))
    if known > 1:
        more = [name for name in fetchable(program, names, rows) if name not in found]
        found |= dict.fromkeys(more[: 1 << known])
    return tuple(found)


def _report_line(new: Sequence[str], wanted: Names) -> str:
    """Describe a compilation for other fetches."""
    what = f"no step returned {', '.join(new)}" if new else "no step returned all of them"
    return f"{what}: compiled again, for {len(wanted)} fetches in all"


def _forget(mine: weakref.ref[KeptPrograms], serial: int) -> None:
    kept = mine()
    if kept is not None:
        kept.forget(serial)
