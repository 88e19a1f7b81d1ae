"""Executor: runs programs on a place (Paddle page: paddle.static.Executor)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from graphopt.display.facts import WithFacts
from graphopt.errors import ArrayFetchError, OperandError
from graphopt.ir.program import Operator, Program, default_main_program
from graphopt.ir.program.location import caller_level
from graphopt.runtime.devices.places import Place, check_place, place_of
from graphopt.runtime.distributed.world import world_of_environment
from graphopt.runtime.feeds.buckets import Buckets
from graphopt.runtime.feeds.feed import feeds_state, names_fed, with_readers
from graphopt.runtime.feeds.fetch import (
    MOST_ARRAYS,
    ArrayCounts,
    Results,
    as_results,
    fetch_arrays,
    fetch_names,
    split_updates,
)
from graphopt.runtime.feeds.fetched_lengths import computed_lengths, levels_fetched, note_lengths
from graphopt.runtime.feeds.from_dataset import one_line, run_from_dataset
from graphopt.runtime.runners.bucketed import BucketedRunner
from graphopt.runtime.runners.runner import Runner, step_signature
from graphopt.runtime.settings.run_times import kept_times, time_run
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.arrays import Feed, Feeds, FetchList, Stats, counters
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.scope import Scope, global_scope


class ProgramWithRunner(Protocol):
    """A program with a runner of its own, which runs on the place of the executor."""

    _program: Program
    _source: Program

    def _count(self, place: Place) -> int: ...

    def _runner_alone(self, executor: Executor, scope: Scope) -> Runner | None: ...

    def _run(
        self,
        executor: Executor,
        feed: Feed,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
        updates: tuple[Operator, ...] | None,
    ) -> Results: ...


class Executor(WithFacts):
    """Runs a Program or a CompiledProgram.

    `place` runs plain programs; by default it is the best device that JAX has. `buckets` (see
    `graphopt.buckets`) lets programs run feeds of many sizes as a few; data-parallel programs run
    unpadded. By default, programs with feeds of sequences use `sequences()`, and trainings whose
    feeds have had several sizes use `automatic()`; see docs/how-to/many-sizes.md.
    """

    compiled_for_trainers: ClassVar[Callable[[Program, Place], ProgramWithRunner]]
    """Compiles a program for all trainers of a job; the module `compiled_program` sets it."""

    def __init__(self, place: object = None, *, buckets: Buckets | None = None) -> None:
        self.place: Place = place_of(place)
        check_place(self.place)
        self.buckets = buckets
        self._closed = False
        self._arrays: ArrayCounts = Bounded(MOST_ARRAYS)
        self._runner = self.new_runner()
        # the runners of programs with collectives over all trainers, by serial and version
        self._joined: dict[tuple[int, int], ProgramWithRunner] = {}

    def new_runner(self, strategy: BuildStrategy | None = None) -> BucketedRunner:
        """Make a runner of programs on this place, with the buckets if there are any."""
        return BucketedRunner((self.place,), self.buckets, strategy)

    def close(self) -> None:
        """Release the compiled programs; the executor cannot run anything afterwards."""
        self._closed = True
        self._runner = self.new_runner()

    @property
    def stats(self) -> Stats:
        """The numbers of plain programs and shapes compiled here, and of steps run.

        With buckets also the number of `rows` fed and of `padding` rows added, and under `exact`
        the reasons why programs ran without padding. `op_by_op` counts the shapes of programs whose
        sizes depend on data (see docs/explanation/sizes-from-data.md). `tiers` counts the forms in
        which they run, each with its reason or its start (see FLAGS_graphopt_tier). `reasons`
        counts the compilations for a new program, for other fetches or feeds of one, and for
        another shape of its feeds; `other_fetches` lists fetches that no step had.
        """
        return self._runner.stats

    def run(
        self,
        program: Program | ProgramWithRunner | None = None,
        feed: Feed = None,
        fetch_list: FetchList = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> Results:
        """Run a program once and return the fetched values in the order of `fetch_list`.

        `feed` maps variable names to arrays of exactly their dtype and rank. Fetched parameters
        have the value after this run's update. `use_prune` leaves out the operators that neither a
        fetch nor an update needs; optimizer operators in `fetch_list` do so too, and only they
        update. `use_program_cache` is always on. Tensors that are fetched without `return_numpy`
        carry the lengths of the sequences in them, unless replicas are not merged.

        Raises RuntimeError when closed, TypeError for arguments of the wrong kind, FeedError
        (ValueError) for feeds that do not fit, FetchError (KeyError, RuntimeError) for unknown
        fetches, ScopeError (RuntimeError) for parameters without a value.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Executor")
        scope = global_scope() if scope is None else scope
        if not isinstance(scope, Scope):
            raise OperandError(
                f"run(): the argument 'scope' must be a Scope, found {type(scope).__name__}; make "
                "one with paddle.static.Scope(), or leave it out"
            )
        given = default_main_program() if program is None else program
        source: Program | ProgramWithRunner = given
        if isinstance(given, Program) and given.runs_as is not None:
            source = given.runs_as()
        elif isinstance(given, Program) and given.communicates:
            source = self._over_trainers(given)
        if source is not given and isinstance(feed, (list, tuple)) and len(feed) == 1:
            feed = feed[0]  # a plain program takes one dict, however many devices run it
        own = source if isinstance(source, Program) else _program_of(source)
        if own.readers:
            count = 1 if isinstance(source, Program) else source._count(self.place)
            feed = with_readers(own.readers, feed, count)
        # fetched tensors carry the lengths of their sequences, arrays do not
        levels = () if return_numpy or not return_merged else levels_fetched(own, fetch_list)
        if return_merged and not use_prune and not levels and kept_times() is None:
            is_plain = isinstance(source, Program)
            runner = self._runner if is_plain else source._runner_alone(self, scope)
            signature = step_signature(own, feed, fetch_list)
            if runner is not None and (ready := runner.find_ready(signature)) is not None:
                arrays: Feeds = feed  # pyright: ignore  # the signature says so
                try:
                    reads = return_numpy and bool(fetch_list)
                    fetches = runner.run_ready(ready, own, arrays, scope, reads=reads)
                    return as_results(fetches, return_numpy=return_numpy)
                except Exception as error:
                    self._explain(error, own, feed, fetch_list)
                    raise
        fetch_list, updates = split_updates(fetch_list)
        names = fetch_names(fetch_list)
        options = scope, return_numpy, return_merged, updates if use_prune or updates else None
        try:
            if levels:
                computed = computed_lengths(own, levels)
                values = self._run_noted(source, feed, (*names, *computed), options)
                found, lengths = values[: len(names)], values[len(names) :]
                note_lengths(found, levels, feed, dict(zip(computed, lengths, strict=True)))
                return found
            if not self._arrays and kept_times() is None:
                try:
                    return self._run_source(source, feed, names, *options)
                except ArrayFetchError:  # `_run_noted` finds the tensor array and fetches its parts
                    pass
            return self._run_noted(source, feed, names, options)
        except Exception as error:
            self._explain(error, own, feed, fetch_list)
            raise

    def train_from_dataset(
        self,
        program: Any = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Any = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> None:
        """Run a step of a program for each batch of a data set.

        After each `print_period`-th batch the values of `fetch_list` are printed under the names in
        `fetch_info`. `fetch_handler` (`paddle.fluid.executor.FetchHandler`) gets values at
        intervals. `debug` has no effect, nor has `thread`: the batches are trained in order, where
        Paddle's threads train in parallel. Raises RuntimeError without a data set, AssertionError
        for lists of different lengths, FeedError for data that do not fit.
        """

        def run(feed: dict[str, Any], fetches: list[Any]) -> list[Any]:
            return self.run(program, feed, fetches, scope=scope, return_numpy=False)

        run_from_dataset(
            *(run, dataset, thread, fetch_list, fetch_info, print_period, fetch_handler),
            self._report,
        )

    def _over_trainers(self, program: Program) -> Program | ProgramWithRunner:
        """Map the program to all trainers of the job, one place each; return it without a job."""
        world = world_of_environment()
        if world is None or world.trainers == 1:
            return program
        key = program.serial, program.version
        if key not in self._joined:
            self._joined.clear()
            self._joined[key] = type(self).compiled_for_trainers(program, self.place)
        return self._joined[key]

    def _facts(self) -> Mapping[str, str]:
        """Summarize the place, and the numbers of compilations and runs."""
        found = {"place": repr(self.place), **counters(self.stats)}
        if self.buckets is not None:
            found["buckets"] = repr(self.buckets)
        return {**found, "closed": "True"} if self._closed else found

    infer_from_dataset = train_from_dataset
    _report = staticmethod(one_line)

    def _explain(
        self, error: Exception, program: Program, feed: Feed, fetch_list: FetchList
    ) -> None:
        """Raise a clearer error if there is one."""
        from graphopt.runtime.feeds.blame import in_words

        if (clearer := in_words(error, program, feed, fetch_list)) is not error:
            raise clearer

    def _prune_program(
        self,
        program: Program,
        feed: Iterable[str] | None = None,
        fetch_list: FetchList = None,
        optimize_ops: Sequence[Operator] | None = None,
    ) -> Program:
        """Copy a program without the operators that no fetch and no update needs.

        `feed` has the names of feeds, which are not computed; `optimize_ops` are the updates to
        keep, by default all.
        """
        from graphopt.ir.translate.prune import prune

        return prune(program, fetch_names(fetch_list), feed or (), optimize_ops or None)

    def _run_noted(
        self,
        source: Program | ProgramWithRunner,
        feed: Feed,
        names: tuple[str, ...],
        options: tuple[Scope, bool, bool, tuple[Operator, ...] | None],
    ) -> Results:
        """Run a program; note its time, and the tensor arrays among its fetches."""

        def step(names: tuple[str, ...]) -> Results:
            return self._run_source(source, feed, names, *options)

        if isinstance(source, Program):
            with time_run(source):
                return fetch_arrays(self._arrays, source, names, step)
        with time_run(source._source):
            return fetch_arrays(
                *(self._arrays, source._program, names, step),
                by_device=not options[2],
                merges=lambda: source._count(self.place) > 1,
            )

    def _run_source(
        self,
        source: Program | ProgramWithRunner,
        feed: Feed,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
        updates: tuple[Operator, ...] | None,
    ) -> Results:
        """Run a program; with `updates`, prune to the operators for them and the fetches."""
        if not isinstance(source, Program):
            return source._run(self, feed, names, scope, return_numpy, return_merged, updates)
        if not names and not source.global_block().ops:
            warnings.warn(
                "There are no operators in the program to be executed", stacklevel=caller_level()
            )
            if not feeds_state(source, feed):
                return []
        if updates is not None:
            needed = names_fed(feed), names, updates
            source = self._runner.find_pruned(source, *needed, self._prune_program)
        fetches = self._runner.step(source, feed, names, scope, wait=return_numpy)
        return as_results([value for (value,) in fetches], return_numpy=return_numpy)


def _program_of(source: ProgramWithRunner) -> Program:
    """Return the program that a CompiledProgram or similar runs; TypeError for others."""
    if not hasattr(source, "_run"):
        raise TypeError(
            f"Executor requires Program as its Parameter. But you passed in {type(source)}; "
            "give a Program or CompiledProgram, such as static.default_main_program()"
        )
    return source._program
