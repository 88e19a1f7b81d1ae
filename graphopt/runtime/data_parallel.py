"""The data-parallel side of a CompiledProgram: places, splitting, merging."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from graphopt.errors import FeedError
from graphopt.ir.program import Program
from graphopt.ir.program.location import caller_level
from graphopt.runtime.compilation import Compilation
from graphopt.runtime.distributed.job import job_of
from graphopt.runtime.executor import Executor
from graphopt.runtime.feed import SplitFeed, split_feed
from graphopt.runtime.fetch import as_result, merge_replicas, split_replicas
from graphopt.runtime.flags import checks_nan_inf
from graphopt.runtime.jax_import import import_jax
from graphopt.runtime.kept import KeptPrograms, Ready, choose, ready_of
from graphopt.runtime.losses import check_customized_seed, check_weighted
from graphopt.runtime.places import Place, as_place, cpu_places, cuda_places
from graphopt.runtime.runner import (
    MOST_READY,
    feed_signature,
    passed_unchanged,
    write_learning_rates,
)
from graphopt.runtime.scope import Scope
from graphopt.runtime.strategies import BuildStrategy, ExecutionStrategy

if TYPE_CHECKING:
    from graphopt.runtime.compile import Executable


class Owner(Protocol):
    """The program and the strategies that a data-parallel run is for; a CompiledProgram."""

    _program: Program
    _strategy: BuildStrategy
    _exec_strategy: ExecutionStrategy
    _data_parallel: DataParallel | None


class DataParallel:
    """The request of `with_data_parallel`, and the programs that were compiled for it."""

    def __init__(
        self,
        loss_name: str | None,
        training: bool,
        share_vars_from: Owner | None,
        places: tuple[Place, ...] | None,
        *,
        sample_weighted: bool = False,
    ) -> None:
        self.loss_name = loss_name
        self.training = training
        self.share_vars_from = share_vars_from
        self.places = places
        self.sample_weighted = sample_weighted
        self.kept = KeptPrograms()
        self.stats: dict[str, Any] = {"runs": 0}
        self.session: Any = None
        self._ready: dict[Any, Ready] = {}
        self._warned = False

    def run(
        self,
        owner: Owner,
        executor: Executor,
        feed: Any,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """One step on all devices."""
        waits = return_numpy and bool(names)
        per_fetch = self._fetches(owner, executor.place, feed, names, scope, waits)
        self.stats["runs"] += 1
        if not return_merged:
            return [
                [as_result(value, return_numpy=return_numpy) for value in values]
                for values in per_fetch
            ]
        return [
            as_result(merge_replicas(name, values), return_numpy=return_numpy)
            for name, values in zip(names, per_fetch, strict=True)
        ]

    def _fetches(
        self,
        owner: Owner,
        place: Place,
        feed: Any,
        names: tuple[str, ...],
        scope: Scope,
        waits: bool,
    ) -> list[list[Any]]:
        """The values of every fetch on every replica, for a caller that `waits` for them or not.

        A dict of arrays like one that passed before, unchanged, is not looked at again.
        """
        program = owner._program
        key = place, feed_signature(program, feed, names)
        ready = self._ready.get(key)
        executable = ready() if ready is not None else None
        if executable is not None:
            write_learning_rates(program, scope)
            return self._run(executable, feed, scope, waits)
        places = self._places(place)
        strategy = self._strategy(owner)
        check_customized_seed(program, strategy, feed)
        if self.sample_weighted:
            check_weighted(strategy)
        steps = max(owner._exec_strategy.num_iteration_per_run, 1)
        parts = split_feed(program, feed, len(places), training=self.training, steps=steps)
        self._check_rows(parts)
        write_learning_rates(program, scope)
        executable, found = self._step(owner, strategy, places, parts, names, scope, waits)
        if executable is not None and _may_skip(program, feed, parts, key[1]):
            if len(self._ready) >= MOST_READY:
                self._ready.clear()
            self._ready[key] = ready_of(executable)
        return found

    def compilation(
        self, owner: Owner, feeds: tuple[str, ...], fetches: tuple[str, ...], place: Place
    ) -> Compilation:
        """The compilation for this place; leaves the choice of places to the first run."""
        places = self.places or _places_of(place.platform)
        return self._compilation(owner, feeds, fetches, places)

    def _compilation(
        self,
        owner: Owner,
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        places: tuple[Place, ...],
    ) -> Compilation:
        return Compilation(
            owner._program,
            feeds,
            fetches,
            owner._strategy,
            places,
            data_parallel=True,
            steps=max(owner._exec_strategy.num_iteration_per_run, 1),
            sample_weighted=self.sample_weighted and self.training,
        )

    def _check_rows(self, parts: SplitFeed) -> None:
        """Warn, once, of feeds with different numbers of rows, of which each was split by itself.

        FeedError when devices should count by rows that their feeds do not agree on.
        """
        shown = ", ".join(f"{name} {count}" for name, count in parts.samples.items())
        if self.sample_weighted and self.training and len(set(parts.rows.values())) > 1:
            raise FeedError(
                f"with sample_weighted=True devices count by rows, and the feeds have different "
                f"ones: {shown}"
            )
        if len(set(parts.samples.values())) > 1 and not self._warned:
            self._warned = True
            warnings.warn(
                f"the feeds have different numbers of rows ({shown}), and each is split over "
                f"{parts.count} devices by itself; feed equally many where rows belong together",
                stacklevel=caller_level(),
            )

    def _strategy(self, owner: Owner) -> BuildStrategy:
        """The strategy; for a training program of several trainers, that of their job."""
        if self.session is None and self.training:
            group = job_of(owner._strategy)
            if group is not None:
                import_jax()
                from graphopt.runtime.distributed.step import Session

                self.session = Session(group, owner._strategy)
        return owner._strategy if self.session is None else self.session.strategy

    def _step(
        self,
        owner: Owner,
        strategy: BuildStrategy,
        places: tuple[Place, ...],
        parts: SplitFeed,
        names: tuple[str, ...],
        scope: Scope,
        waits: bool,
    ) -> tuple[Executable | None, list[list[Any]]]:
        """The executable, unless trainers step together, and the fetches on every replica."""
        import_jax()
        from graphopt.runtime.compile import compile_program

        even = parts.whole is not None
        # in sorted order, so that dicts of another order share what was compiled
        fed = tuple(sorted(parts.whole if parts.whole is not None else parts.chunks[0]))
        key = (fed, parts.count, parts.stacked, checks_nan_inf())

        def compilation(fetches: tuple[str, ...] = names) -> Compilation:
            return replace(
                self._compilation(owner, fed, fetches, places[: parts.count]),
                strategy=strategy,
                stacked=parts.stacked,
            )

        if self.session is not None and not even:
            fetches, mapper = self.session.run_uneven(compilation(), parts, scope)
            self.stats |= {"mapper": mapper, "devices": parts.count}
            return None, fetches
        arrays = [parts.whole] if parts.whole is not None else list(parts.chunks)
        shapes = tuple(tuple((part[n].shape, part[n].dtype) for n in fed) for part in arrays)
        rows = max((shape[0] for part in shapes for shape, _ in part if shape), default=1)
        compiled, served = self.kept.find(
            owner._program,
            key,
            names,
            rows,
            lambda fetches: compile_program(compilation(fetches)),
            alone=self.session is not None,  # all trainers compile the same
        )
        if self.session is not None:
            whole = {name: array.copy() for name, array in (parts.whole or {}).items()}
            fetches, mapper = self.session.run(compiled, shapes, whole, scope)
            self.stats |= {"mapper": mapper, "devices": parts.count}
            return None, fetches
        executable = choose(compiled.executable(shapes, parts.count, even=even), served, names)
        feeds: Any = parts.whole
        if feeds is None:
            feeds = {name: [chunk[name].copy() for chunk in parts.chunks] for name in fed}
        return executable, self._run(executable, feeds, scope, waits or not even)

    def _run(
        self, executable: Executable, feeds: dict[str, Any], scope: Scope, waits: bool
    ) -> list[list[Any]]:
        if not waits:  # the caller may change its arrays before the step has read them
            feeds = {name: array.copy() for name, array in feeds.items()}
        fetches = executable(feeds, scope)
        count = len(executable.compiled.compilation.places)
        self.stats |= {"mapper": executable.replicated.name, "devices": count}
        if executable.replicated.name in ("alone", "by_op"):
            return [[value] for value in fetches]
        return [
            list(value) if isinstance(value, (list, tuple)) else split_replicas(value)
            for value in fetches
        ]

    def _places(self, place: Place) -> tuple[Place, ...]:
        """The places of this program, resolved at the first run, and the checks that need them."""
        if self.places is None:
            self.places = _places_of(place.platform)
        if not self.places:
            raise ValueError("No places for execution.")
        if any(other.platform != place.platform for other in self.places):
            raise ValueError(
                f"Place type not match: the executor runs on {place!r}, the program on "
                f"{', '.join(map(repr, self.places))}"
            )
        self._check_sharing(self.places)
        return self.places

    def _check_sharing(self, places: Sequence[Place]) -> None:
        source = self.share_vars_from
        if source is None:
            return
        if source._data_parallel is None:
            raise ValueError(
                "The shared Program is not data parallel, cannot share variables from it."
            )
        if not source._data_parallel.stats["runs"]:
            raise ValueError(
                "The shared Program is not compiled and executed, so there is no variables to "
                "share."
            )
        shared = source._data_parallel.places or ()
        if len(shared) != len(places):
            raise ValueError(
                f"the number of places ({len(places)}) is not equal to that of the shared program "
                f"({len(shared)})"
            )


def _places_of(platform: str) -> tuple[Place, ...]:
    """The places of this kind that the environment names."""
    return tuple(cpu_places() if platform == "cpu" else cuda_places())


def _may_skip(program: Program, feed: Any, parts: SplitFeed, signature: Any) -> bool:
    """True for feeds that need no check and no split as long as they are like this one."""
    if signature is None or parts.whole is None:
        return False
    return passed_unchanged(program, feed, parts.whole)


def as_places(spec: Any) -> tuple[Place, ...]:
    """One place or several as a tuple; ValueError for none."""
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ValueError("No places for execution.")
        return tuple(as_place(item) for item in spec)
    return (as_place(spec),)
