"""Compiled programs that a runner keeps: bounded, and gone with the program.

The key of an entry is (program, version, feeds, fetches). It does not keep its program alive; when
the user drops the program, what was compiled of it goes too. Beyond `MOST_COMPILED` the one that
was used least lately goes.

A program whose fetches change from run to run is not compiled for each of them. The first fetches
are compiled alone, and a training loop keeps running them. For others, what was fetched so far is
compiled together, and from the third time on some of the variables after these as well, twice as
many each time: a user who fetches one variable after another compiles only a few times.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from graphopt.errors import GraphoptError
from graphopt.ir.program import GRAD_SUFFIX, Program, Variable
from graphopt.runtime.settings.progress import (
    CHANGED_PROGRAM,
    FEED_SHAPE,
    NEW_PROGRAM,
    OTHER_FEEDS,
    OTHER_FETCHES,
)
from graphopt.runtime.state.arrays import Arrays, Feeds
from graphopt.runtime.state.bounded import Bounded

if TYPE_CHECKING:
    from graphopt.lowering.plan import Replicated
    from graphopt.runtime.state.scope import Scope
    from graphopt.runtime.steps.executable import Executable, Executables

Names = tuple[str, ...]
# a program's serial number and version, and whatever else a compilation depends on
Group = tuple[int, int, Hashable]
MOST_COMPILED = 64
MOST_BYTES = 64 << 20
"""The most bytes of the variables that are compiled as fetches before they are requested."""


@dataclass
class Fetched:
    """The fetches of one program and its feeds: the requested ones, and compiled sets."""

    asked: dict[str, None] = field(default_factory=dict[str, None])
    sets: list[Names] = field(default_factory=list[Names])
    exact: set[Names] = field(default_factory=set[Names])
    """Fetches that must be compiled alone, because a larger set failed."""

    def serving(self, names: Names) -> Names | None:
        """The smallest set that was compiled and has these names."""
        if names in self.sets or names in self.exact:
            return names
        fits = [each for each in self.sets if set(names) <= set(each)]
        return min(fits, key=len, default=None)

    def wanted(self, names: Names, others: Callable[[Names], Sequence[str]]) -> Names:
        """The fetches to compile for these names; `others` are the variables after some names."""
        known = len(self.sets)
        self.asked |= dict.fromkeys(names)
        if not known or not names:
            return names
        together = tuple(self.asked)
        if known > 1:
            more = [name for name in others(together) if name not in self.asked]
            together += tuple(more[: 1 << known])
        return together


class Chosen:
    """Some of the fetches of an executable that has more."""

    def __init__(self, executable: Executable, places: Sequence[int]) -> None:
        self.executable = executable
        self.places = tuple(places)

    @property
    def replicated(self) -> Replicated:
        """That of the executable."""
        return self.executable.replicated

    def __call__(self, feeds: Feeds, scope: Scope) -> Arrays:
        found = self.executable(feeds, scope)
        return tuple([found[place] for place in self.places])


Runnable: TypeAlias = "Executable | Chosen"
Ready: TypeAlias = "Callable[[], Runnable | None]"


def ready_of(executable: Runnable) -> Ready:
    """Gives what serves a step as long as its executable is kept."""
    if not isinstance(executable, Chosen):
        return weakref.ref(executable)
    held, places = weakref.ref(executable.executable), executable.places

    def again() -> Chosen | None:
        found = held()
        return None if found is None else Chosen(found, places)

    return again


def choose(executable: Executable, compiled: Names, names: Names) -> Runnable:
    """An executable of these fetches from one of others."""
    if compiled == names:
        return executable
    return Chosen(executable, [compiled.index(name) for name in names])


class KeptPrograms:
    """The compiled programs, by program, and the reasons for each."""

    def __init__(self, most: int = MOST_COMPILED) -> None:
        self.reasons: Counter[str] = Counter()
        self.reason = NEW_PROGRAM
        """The reason for the compilation under way."""
        self._entries: Bounded[tuple[Group, Names], Executables] = Bounded(most)
        # goes with the last entry of its group, or with the program
        self._fetched: dict[Group, Fetched] = {}
        # one for each program that has entries, and gone with it
        self._watched: dict[int, weakref.finalize[..., Program]] = {}

    def all(self) -> list[Executables]:
        """Everything that is kept."""
        return list(self._entries.values())

    def stats(self, compiled: Sequence[Executables]) -> dict[str, int]:
        """The number of compilations by reason; `compiled` is all that is held now."""
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
    ) -> tuple[Executables, Names]:
        """The compiled program for these fetches, and its own fetches; `make` compiles a new one.

        `feeds` is whatever else what is compiled depends on, and `rows` stands for open sizes. With
        `alone` no others are compiled with these fetches.
        """
        group = program.serial, program.version, feeds
        fetched = self._fetched.setdefault(group, Fetched())
        if alone:
            fetched.exact.add(names)
        served = fetched.serving(names)
        found = self._entries.used((group, served)) if served is not None else None
        if served is None or found is None:
            return self._made(program, group, fetched, names, rows, make)
        return found, served

    def _made(
        self,
        program: Program,
        group: Group,
        fetched: Fetched,
        names: Names,
        rows: int,
        make: Callable[[Names], Executables],
    ) -> tuple[Executables, Names]:
        self._watch(program)
        self.reason = self._reason(group)
        wanted = names
        if names not in fetched.exact:
            wanted = fetched.wanted(names, lambda known: list(fetchable(program, known, rows)))
        try:
            found = make(wanted)
        except (GraphoptError, NotImplementedError):
            if wanted == names:
                raise
            # one of the others cannot be fetched
            found, wanted = make(names), names
            fetched.exact.add(names)
        self.reasons[found.reason] += 1
        fetched.sets.append(wanted)
        for gone in self._entries.keep((group, wanted), found):
            self._forget_set(*gone)
        return found, wanted

    def _reason(self, group: Group) -> str:
        if group in self._fetched and self._fetched[group].sets:
            return OTHER_FETCHES
        known = [each for each, fetched in self._fetched.items() if fetched.sets]
        if any(each[:2] == group[:2] for each in known):
            return OTHER_FEEDS
        return CHANGED_PROGRAM if any(each[0] == group[0] for each in known) else NEW_PROGRAM

    def _forget_set(self, group: Group, names: Names) -> None:
        fetched = self._fetched.get(group)
        if fetched is not None:
            fetched.sets = [each for each in fetched.sets if each != names]
            if not fetched.sets:
                del self._fetched[group]

    def _watch(self, program: Program) -> None:
        """Forget the entries of a program when the program is gone."""
        if program.serial not in self._watched:
            mine: weakref.ref[KeptPrograms] = weakref.ref(self)
            self._watched[program.serial] = weakref.finalize(program, _forget, mine, program.serial)
            self._watched[program.serial].atexit = False

    def forget(self, serial: int) -> None:
        """Release the entries of one program."""
        self._watched.pop(serial, None)
        for key in [key for key in self._entries if key[0][0] == serial]:
            del self._entries[key]
        for group in [group for group in self._fetched if group[0] == serial]:
            del self._fetched[group]


def _forget(mine: weakref.ref[KeptPrograms], serial: int) -> None:
    kept = mine()
    if kept is not None:
        kept.forget(serial)


def fetchable(program: Program, names: Names, rows: int) -> Iterator[str]:
    """Variables that operators of a program compute, first those after the last of some names.

    Open sizes count as `rows`. Gradients are among them when one of the names is a gradient.
    """
    block = program.global_block()
    gradients = any(GRAD_SUFFIX in name for name in names)
    made = dict.fromkeys(name for op in block.ops for name in op.output_arg_names)
    order = list(made)
    start = max((order.index(name) for name in names if name in made), default=-1) + 1
    left = MOST_BYTES
    for name in itertools.chain(order[start:], order[:start]):
        variable = block.vars.get(name)
        if variable is None or variable.persistable or not is_plain(variable):
            continue
        if not gradients and GRAD_SUFFIX in name:
            continue
        size = 8
        for dim in variable.shape:
            size *= dim if dim >= 0 else rows
        if size <= left:
            left -= size
            yield name


def is_plain(variable: Variable) -> bool:
    """True for a variable that is one array of numbers."""
    return variable.has_type and variable.dtype.is_floating and not variable.lod_level
