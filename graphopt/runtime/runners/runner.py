"""Runner: compiles programs for fixed places and a strategy, and runs their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast
from weakref import WeakKeyDictionary, proxy

import numpy as np

from graphopt.errors import OpenSizeError, ProgramError, UnsupportedError
from graphopt.ir.program import LENGTHS, Operator, Program, Variable
from graphopt.ir.program.open_branches import TAKEN
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import Place, device_of
from graphopt.runtime.feeds.feed import OwnTypes, misfit, own_types, single_feed
from graphopt.runtime.feeds.fetch import by_replica
from graphopt.runtime.feeds.split import SplitFeed
from graphopt.runtime.runners.data_parallel import DataParallel
from graphopt.runtime.runners.open_branches import Branches, run_side
from graphopt.runtime.settings.flags import checks_nan_inf, revision
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.arrays import (
    Array,
    Arrays,
    Feed,
    Feeds,
    Fetched,
    FetchList,
    Stats,
    is_of_jax,
    numbers_in,
    shapes_of,
    unchanging,
)
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Tensor
from graphopt.runtime.steps.kept import (
    MOST_COMPILED,
    KeptPrograms,
    Ready,
    Runnable,
    ready_of,
    subset_of,
)
from graphopt.runtime.steps.shipped import came_with, executables_of

if TYPE_CHECKING:
    from graphopt.runtime.compile.compiled import Compiled
    from graphopt.runtime.steps.executable import Executable, Executables

# The most kinds of steps that skip the checks of a first step.
MOST_READY = 256

Names = tuple[str, ...]
Signature: TypeAlias = "tuple[Hashable, ...]"


class Runner:
    """A compiler and cache of programs for fixed places and a strategy.

    There is one place, unless `parallel` splits feeds over several. With trainers in other
    processes, a `session` runs the steps of all of them.
    """

    def __init__(
        self,
        places: tuple[Place, ...],
        strategy: BuildStrategy | None = None,
        parallel: DataParallel | None = None,
    ) -> None:
        self.places = places
        self.parallel = parallel
        self.session = None
        if parallel is not None and strategy is not None:
            self.session = parallel.session(strategy)
        self.strategy = strategy if self.session is None else self.session.strategy
        self.runs = 0
        self._mapper: tuple[str, int] | None = None
        self._kept = KeptPrograms()
        self._branches: Branches = WeakKeyDictionary()
        self._pruned: WeakKeyDictionary[Program, Bounded[Signature, Program]] = WeakKeyDictionary()
        self._ready: Bounded[Signature, Ready] = Bounded(MOST_READY)

    @property
    def stats(self) -> Stats:
        """The numbers of compiled programs, with reasons, and of runs.

        For data-parallel runs also the mapper and the number of devices of the latest run.
        """
        kept = self.executables()
        found: Stats = {
            "compiled_programs": len(self.all_compiled()),
            "compiled_shapes": len(kept),
            "op_by_op": sum(executable.replicated.name == "by_op" for executable in kept),
            "tiers": dict(Counter(filter(None, (each.tier() for each in kept)))),
            "runs": self.runs,
            "reasons": self._kept.stats(self._kept.all()),
        }
        if self._kept.compiled_for:
            found["other_fetches"] = list(self._kept.compiled_for)
        if self.parallel is not None and self._mapper is not None:
            found["mapper"], found["devices"] = self._mapper
        return found

    def all_compiled(self) -> list[Compiled]:
        """List the optimized modules, one for each program, feeds and set of fetches."""
        return [each.compiled for each in self._kept.all()]

    def all_made(self) -> list[Compiled]:
        """List the modules for reports: one for each set of sizes if passes choose by sizes."""
        found = [[e.made_of for e in each.all()] or [each.compiled] for each in self._kept.all()]
        return list({id(made): made for each in found for made in each}.values())

    def executables(self) -> list[Executable]:
        """List the executables, one for each set of feed shapes."""
        return [executable for each in self._kept.all() for executable in each.all()]

    def step(
        self, program: Program, feed: Feed, names: Names, scope: Scope, *, wait: bool
    ) -> Fetched:
        """Check a feed, split it over the places and run one step.

        With `wait` the caller reads the fetches at once. A dict of arrays like one that passed
        before, unchanged, is not checked again: in a training loop the checks would cost more than
        the call of a small step. A program with open branches runs as the sides that its conditions
        select.
        """
        signature = step_signature(program, feed, names)
        if signature is None and (found := held_arrays(feed, self.places)) is not feed:
            feed, signature = found, step_signature(program, found, names)
        executable = self.find_ready(signature)
        if executable is not None:
            arrays: Feeds = feed  # pyright: ignore  # the signature says so
            return self._run(executable, program, arrays, names, scope, wait=wait)

        def check(one: Program, names: Names) -> Fetched:
            if one is not program:
                return self.step(one, feed, names, scope, wait=wait)
            own = signature if TAKEN not in names else None
            return self._checked_step(program, feed, names, scope, own, wait=wait)

        return run_side(self._branches, program, names, check)

    def find_ready(self, signature: Signature | None) -> Runnable | None:
        """Find the executable of a step whose feeds need no check; None for a new signature."""
        ready = None if signature is None else self._ready.get(signature)
        return None if ready is None else ready()

    def _checked_step(
        self,
        program: Program,
        feed: Feed,
        names: Names,
        scope: Scope,
        signature: Signature | None,
        *,
        wait: bool,
    ) -> Fetched:
        """Check a feed and run a step; later feeds of this signature skip the check."""
        if self.parallel is None:
            parts = SplitFeed(1, single_feed(program, feed, any_shape=True))
        else:
            assert self.strategy is not None
            parts = self.parallel.split(
                program,
                self.strategy,
                feed,
                self.parallel.replicas(self.places, self.strategy),
                any_shape=self.session is None,
            )
        if self.session is not None:
            return self._together(program, parts, names, scope)
        executable = self._executable(program, parts, names)
        # an executable that depends on fed numbers does not serve all feeds of these sizes
        serves_all = not (executable.compiled.deciding or executable.compiled.compilation.numbers)
        unchanged = signature is not None and passed_unchanged(program, cast("Feeds", feed), parts)
        if signature is not None and unchanged and serves_all:
            self._ready.keep(signature, ready_of(executable))
        return self._run(executable, program, parts.feeds(), names, scope, wait=wait)

    def _fed_step(
        self,
        program: Program,
        feeds: dict[str, Array],
        names: Names,
        scope: Scope,
        *,
        wait: bool,
    ) -> Fetched:
        """Run one step of checked feeds on one place, unpadded."""
        executable = self._executable(program, SplitFeed(1, feeds), names)
        return self._run(executable, program, feeds, names, scope, wait=wait)

    def run_ready(
        self, executable: Runnable, program: Program, feeds: Feeds, scope: Scope, *, reads: bool
    ) -> Arrays:
        """Run one step of checked feeds, and return its fetches.

        With `reads` the caller reads some at once: then the step has read its feeds, too.
        """
        if program.lr_schedulers:
            write_learning_rates(program, scope)
        if not reads:  # the caller may change its arrays before the step has read them
            feeds = {name: unchanging(array) for name, array in feeds.items()}  # pyright: ignore
        fetches = executable(feeds, scope)
        self.runs += 1
        return fetches

    def _run(
        self,
        executable: Runnable,
        program: Program,
        feeds: Feeds,
        names: Names,
        scope: Scope,
        *,
        wait: bool,
    ) -> Fetched:
        """Run a step, and return each fetch as a value for each replica; note their number."""
        reads = wait and bool(names)
        fetches = self.run_ready(executable, program, feeds, scope, reads=reads)
        replicated = executable.replicated
        if self.parallel is not None:
            self._mapper = replicated.name, replicated.replicas
        return by_replica(fetches) if replicated.mapped else [*zip(fetches)]

    def _executable(self, program: Program, parts: SplitFeed, names: Names) -> Runnable:
        executables, served, shapes = self._executables(program, parts, names)
        even, feeds = parts.whole is not None, parts.whole if parts.count == 1 else None
        executable = executables.find(shapes, parts.count, even=even, feeds=feeds)
        return subset_of(executable, served, names)

    def _executables(
        self, program: Program, parts: SplitFeed, names: Names
    ) -> tuple[Executables, Names, Hashable]:
        """Find executables, specialized to sizes and elements of these feeds if necessary."""
        while True:
            try:
                return self._found_executables(program, parts, names)
            except OpenSizeError as error:
                known = program.fixed_feeds
                wanted = tuple(dict.fromkeys((*(known or ()), *error.feeds)))
                if wanted == known or parts.whole is None or parts.count > 1:
                    raise
                program.fixed_feeds = wanted

    def _found_executables(
        self, program: Program, parts: SplitFeed, names: Names
    ) -> tuple[Executables, Names, Hashable]:
        """Find or compile the program for these fetches; give its fetches and feed shapes."""
        chunks = [parts.whole] if parts.whole is not None else list(parts.chunks)
        # sorted, so that dicts in another order share compilations
        fed = tuple(sorted(chunks[0]))
        shapes = tuple(map(shapes_of, chunks))
        devices = parts.device_shapes()
        dtypes = {name: array.dtype.name for name, array in chunks[0].items()}
        own = own_types(program, devices, dtypes)
        numbers: tuple[tuple[str, tuple[float, ...]], ...] = ()
        if program.fixed_feeds is not None:
            own = tuple((name, devices[0][name], dtypes[name]) for name in fed)
            numbers = tuple((n, numbers_in(chunks[0][n])) for n in program.fixed_feeds)

        def make(fetches: Names) -> Executables:
            compilation = self._compilation(program, parts, fed, fetches, own)
            compilation = replace(compilation, numbers=numbers)
            try:
                return executables_of(program, compilation, self._kept.reason)
            except ProgramError as error:
                if not own or program.fixed_feeds is not None:
                    raise
                raise misfit(program, devices[0], own, error) from error

        executables, served = self._kept.find(
            program,
            (fed, parts.count, parts.stacked, checks_nan_inf(), own, numbers),
            names,
            rows_in(shapes),
            make,
            # all trainers compile the same program
            alone=self.session is not None or TAKEN in names,
            shipped=self.strategy is not None or came_with(program),
        )
        return executables, served, shapes

    def _compilation(
        self,
        program: Program,
        parts: SplitFeed,
        fed: Names,
        fetches: Names,
        own: OwnTypes = (),
    ) -> Compilation:
        # a cache entry must not keep the program alive
        held = proxy(program)
        if self.parallel is None:
            return Compilation(held, fed, fetches, self.strategy, self.places, types=own)
        places = self.places[: parts.count * self.parallel.devices_each(self.strategy)]
        made = self.parallel.compilation(
            held, fed, fetches, self.strategy, places, stacked=parts.stacked
        )
        if made.steps > 1 and TAKEN in fetches:
            raise UnsupportedError(
                f"each of the {made.steps} steps of a run may take a different branch: set "
                f"num_iteration_per_run = 1, or fix the cause: {self._branches[program].why}"
            )
        return replace(made, types=own)

    def _together(self, program: Program, parts: SplitFeed, names: Names, scope: Scope) -> Fetched:
        """Run one step with the trainers of other processes."""
        session = self.session
        assert session is not None
        write_learning_rates(program, scope)
        if parts.whole is None:
            fed = tuple(sorted(parts.chunks[0]))
            compilation = self._compilation(program, parts, fed, names)
            fetches, mapper = session.run_uneven(compilation, parts, scope)
        else:
            executables, _, shapes = self._executables(program, parts, names)
            whole = {name: unchanging(array) for name, array in parts.whole.items()}
            fetches, mapper = session.run(executables, shapes, whole, scope)
        self.runs += 1
        self._mapper = mapper, parts.count
        return fetches

    def find_pruned(
        self,
        program: Program,
        feeds: Names,
        names: Names,
        updates: tuple[Operator, ...],
        prune: Callable[[Program, Names, Names, tuple[Operator, ...]], Program],
    ) -> Program:
        """Prune operators that no fetch and no update needs; the result is cached."""
        found = self._pruned.setdefault(program, Bounded(MOST_COMPILED))
        key = program.version, names, feeds, updates
        return found.find(key, lambda: prune(program, feeds, names, updates))


def rows_in(shapes: Sequence[Sequence[tuple[Sequence[int], object]]]) -> int:
    """Find the largest number of rows in these feed shapes, 1 without any."""
    return max((shape[0] for part in shapes for shape, _ in part if shape), default=1)


def step_signature(program: Program, feed: Feed, fetches: FetchList) -> Signature | None:
    """Build the key of a step from its program, flags, fetches and feeds.

    Return None unless the feed is a dict of arrays, and the fetches a list of variables and names.
    """
    if type(feed) is not dict or (type(fetches) is not list and type(fetches) is not tuple):
        return None
    found: list[Hashable] = [program.serial, program.version, revision.number]
    for item in fetches:
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Variable):
            found.append(item.name)
        else:
            return None
    for name, array in feed.items():
        if type(array) is not np.ndarray and not is_of_jax(array):
            return None
        found += (type(array), name, array.shape, array.dtype)
    return tuple(found)


def held_arrays(feed: Feed, places: Sequence[Place]) -> Feed:
    """Replace tensors on the device of a run by the arrays that they hold.

    Return any other feed unchanged, as the same object. A tensor of a scope's variable is not
    replaced: a step takes the buffers of state.
    """
    if type(feed) is not dict or len(places) != 1:
        return feed
    held = {name: value.on_device() for name, value in feed.items() if isinstance(value, Tensor)}
    device = device_of(places[0]) if any(array is not None for array in held.values()) else None
    there = {n: a for n, a in held.items() if a is not None and a.devices() == {device}}
    return {**feed, **there} if there else feed


def passed_unchanged(program: Program, feed: Feeds, parts: SplitFeed) -> bool:
    """Return whether feeds like this one need no check and no split."""
    feeds, block = parts.whole, program.global_block()
    if feeds is None or any(block.has_var(f"{name}{LENGTHS}") for name in feed):
        return False  # lengths are checked against rows in each step
    return len(feeds) == len(feed) and all(feeds[name] is feed[name] for name in feeds)


def write_learning_rates(program: Program, scope: Scope) -> None:
    """Write the current value of each learning-rate schedule to its variable."""
    for name, scheduler in program.lr_schedulers.items():
        variable = program.global_block().find_var(name)
        if variable is not None:
            slot = scope.find_var(name) or scope.var(name)
            slot.schedule(scheduler(), variable.shape, variable.dtype.numpy)
