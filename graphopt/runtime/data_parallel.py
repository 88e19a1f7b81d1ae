"""The data-parallel side of a CompiledProgram: places, splitting, merging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphopt.ir.program import Program
from graphopt.runtime.distributed.job import job_of
from graphopt.runtime.executor import (
    MOST_READY,
    Executor,
    feed_signature,
    passed_unchanged,
    write_learning_rates,
)
from graphopt.runtime.feed import Parts, split_feed
from graphopt.runtime.fetch import as_result, merge_replicas, split_replicas
from graphopt.runtime.losses import check_customized_seed, check_weighted
from graphopt.runtime.places import Place, as_place, cpu_places, cuda_places
from graphopt.runtime.scope import Scope
from graphopt.runtime.strategies import BuildStrategy

if TYPE_CHECKING:
    from graphopt.runtime.compile import Executable
    from graphopt.runtime.compiled_program import CompiledProgram


class DataParallel:
    """What `with_data_parallel` asks for, and the programs that were compiled for it."""

    def __init__(
        self,
        loss_name: str | None,
        training: bool,
        share_vars_from: CompiledProgram | None,
        places: tuple[Place, ...] | None,
        *,
        sample_weighted: bool = False,
    ) -> None:
        self.loss_name = loss_name
        self.training = training
        self.share_vars_from = share_vars_from
        self.places = places
        self.sample_weighted = sample_weighted
        self.compiled: dict[Any, Any] = {}
        self.stats: dict[str, Any] = {"runs": 0}
        self.session: Any = None
        self._ready: dict[Any, Any] = {}

    def run(
        self,
        owner: CompiledProgram,
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
        owner: CompiledProgram,
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
        executable = self._ready.get(key)
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
        write_learning_rates(program, scope)
        executable, found = self._step(owner, strategy, places, parts, names, scope, waits)
        if executable is not None and _may_skip(program, feed, parts, key[1]):
            if len(self._ready) >= MOST_READY:
                self._ready.clear()
            self._ready[key] = executable
        return found

    def _strategy(self, owner: CompiledProgram) -> BuildStrategy:
        """The strategy; of a training program of several trainers, as their job wants it."""
        if self.session is None and self.training:
            group = job_of(owner._strategy)
            if group is not None:
                from graphopt.runtime.distributed.step import Session

                self.session = Session(group, owner._strategy)
        return owner._strategy if self.session is None else self.session.strategy

    def _step(
        self,
        owner: CompiledProgram,
        strategy: BuildStrategy,
        places: tuple[Place, ...],
        parts: Parts,
        names: tuple[str, ...],
        scope: Scope,
        waits: bool,
    ) -> tuple[Executable | None, list[list[Any]]]:
        """What ran, unless trainers step together, and the fetches on every replica."""
        from graphopt.runtime.compile import Request, compile_program

        even = parts.whole is not None
        # in sorted order, so that dicts of another order share what was compiled
        fed = tuple(sorted(parts.whole if parts.whole is not None else parts.chunks[0]))
        key = (fed, names, parts.count, parts.stacked)

        def request() -> Request:
            return Request(
                owner._program,
                fed,
                names,
                strategy,
                places[: parts.count],
                data_parallel=True,
                steps=max(owner._exec_strategy.num_iteration_per_run, 1),
                stacked=parts.stacked,
                sample_weighted=self.sample_weighted and self.training,
            )

        if self.session is not None and not even:
            fetches, mapper = self.session.run_uneven(request(), parts, scope)
            self.stats |= {"mapper": mapper, "devices": parts.count}
            return None, fetches
        compiled = self.compiled.get(key)
        if compiled is None:
            compiled = self.compiled[key] = compile_program(request())
        arrays = [parts.whole] if parts.whole is not None else list(parts.chunks)
        shapes = tuple(tuple((part[n].shape, part[n].dtype) for n in fed) for part in arrays)
        if self.session is not None:
            whole = {name: array.copy() for name, array in (parts.whole or {}).items()}
            fetches, mapper = self.session.run(compiled, shapes, whole, scope)
            self.stats |= {"mapper": mapper, "devices": parts.count}
            return None, fetches
        executable = compiled.executable(shapes, parts.count, even=even)
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
        count = len(executable.compiled.request.places)
        self.stats |= {"mapper": executable.mapped.name, "devices": count}
        if executable.mapped.name in ("alone", "by_op"):
            return [[value] for value in fetches]
        return [
            list(value) if isinstance(value, (list, tuple)) else split_replicas(value)
            for value in fetches
        ]

    def _places(self, place: Place) -> tuple[Place, ...]:
        """The places of this program, resolved at the first run, and the checks that need them."""
        if self.places is None:
            self.places = tuple(cpu_places() if place.platform == "cpu" else cuda_places())
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


def _may_skip(program: Program, feed: Any, parts: Parts, signature: Any) -> bool:
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
