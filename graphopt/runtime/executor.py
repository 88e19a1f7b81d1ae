"""Executor: runs programs on a place (Paddle page: paddle.static.Executor)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from graphopt.ir.legacy.sequences import LENGTHS
from graphopt.ir.program import Operator, Program, default_main_program
from graphopt.runtime.buckets import Buckets
from graphopt.runtime.feed import single_feed
from graphopt.runtime.fetch import as_result, fetch_names, split_updates
from graphopt.runtime.places import Place, as_place, default_place
from graphopt.runtime.scope import Scope, global_scope
from graphopt.runtime.strategies import BuildStrategy

# More kinds of steps than this are looked up in several stages again.
MOST_READY = 256


class Executor:
    """Runs a Program or a CompiledProgram.

    `place` is where plain programs run; the best device that JAX has when it is not given.
    `buckets` (see `graphopt.buckets`) lets programs run feeds of many sizes as a few; those that
    are data parallel run as they are.
    """

    def __init__(self, place: Any = None, *, buckets: Buckets | None = None) -> None:
        self.place: Place = default_place() if place is None else as_place(place)
        self.buckets = buckets
        self._closed = False
        self._runner = self.new_runner()

    def new_runner(self, strategy: BuildStrategy | None = None) -> Runner:
        """What compiles and runs programs on this place, by the buckets if there are any."""
        if self.buckets is None:
            return Runner((self.place,), strategy)
        from graphopt.runtime.bucketed import BucketedRunner

        return BucketedRunner((self.place,), self.buckets, strategy)

    def close(self) -> None:
        """Release what the executor holds; it cannot run anything afterwards."""
        self._closed = True
        self._runner = self.new_runner()

    @property
    def stats(self) -> dict[str, Any]:
        """How many plain programs and shapes this executor compiled, and how many steps it ran.

        With buckets also how many `rows` were fed and how many rows of `padding` were added, and
        under `exact` why programs ran without.
        `op_by_op` counts the shapes of programs whose sizes depend on data (see
        docs/explanation/sizes-from-data.md).
        """
        return self._runner.stats

    def run(
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run a program once and return the fetched values in the order of `fetch_list`.

        `feed` maps variable names to arrays of exactly their dtype and rank. Fetched parameters
        have the value after this run's update. `use_prune` leaves out the operators that neither a
        fetch nor an update needs; optimizer operators in `fetch_list` do so too, and only they
        update. `use_program_cache` is always on.

        Raises RuntimeError when closed, TypeError for arguments of the wrong kind, FeedError
        (ValueError) for feeds that do not fit, FetchError (KeyError, RuntimeError) for unknown
        fetches, ScopeError (RuntimeError) for parameters without a value.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Executor")
        scope = global_scope() if scope is None else scope
        program = default_main_program() if program is None else program
        if isinstance(program, Program):
            fetch_list, updates = split_updates(fetch_list)
            names = fetch_names(fetch_list)
            prune = use_prune or bool(updates)
            return self._run_program(program, feed, names, scope, return_numpy, prune, updates)
        run_compiled = getattr(program, "_run", None)
        if run_compiled is None:
            raise TypeError(
                f"Executor requires Program as its Parameter. But you passed in {type(program)}"
            )
        names = fetch_names(fetch_list)
        return run_compiled(self, feed, names, scope, return_numpy, return_merged)

    def _run_program(
        self,
        program: Program,
        feed: Any,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        use_prune: bool,
        updates: tuple[Operator, ...],
    ) -> list[Any]:
        if not program.global_block().ops and not names:
            warnings.warn("There are no operators in the program to be executed", stacklevel=3)
            return []
        runner = self._runner
        if use_prune:
            feeds = single_feed(program, feed)
            program = runner.pruned(program, names, tuple(feeds), updates)
            fetches = runner.run(program, feeds, names, scope, wait=return_numpy)
        else:
            fetches = runner.step(program, feed, names, scope, wait=return_numpy)
        return [as_result(array, return_numpy=return_numpy) for array in fetches]


class Runner:
    """Compiles programs for fixed places and strategy, and remembers what it compiled."""

    def __init__(self, places: tuple[Place, ...], strategy: Any = None) -> None:
        self.places = places
        self.strategy = strategy
        self.runs = 0
        self._compiled: dict[Any, Any] = {}
        self._pruned: dict[Any, Program] = {}
        self._ready: dict[Any, Any] = {}

    @property
    def stats(self) -> dict[str, int]:
        """What was compiled and how often it ran."""
        return {
            "compiled_programs": len(self.all_compiled()),
            "compiled_shapes": sum(len(c.executables) for c in self.all_compiled()),
            "op_by_op": sum(
                executable.mapped.name == "by_op"
                for compiled in self.all_compiled()
                for executable in compiled.executables.values()
            ),
            "runs": self.runs,
        }

    def all_compiled(self) -> list[Any]:
        """The optimised modules so far, one for each program, feeds and fetches."""
        return list(self._compiled.values())

    def step(
        self, program: Program, feed: Any, names: tuple[str, ...], scope: Scope, *, wait: bool
    ) -> tuple[Any, ...]:
        """Check a feed and run one step on one device.

        A dict of arrays like one that passed before, unchanged, is not looked at again: in a
        training loop the checks would cost more than the call of a small step.
        """
        key = feed_signature(program, feed, names)
        executable = self._ready.get(key)
        if executable is not None:
            return self._run(executable, program, feed, names, scope, wait=wait)
        feeds = single_feed(program, feed)
        executable = self._executable(program, feeds, names)
        if key is not None and passed_unchanged(program, feed, feeds):
            if len(self._ready) >= MOST_READY:
                self._ready.clear()
            self._ready[key] = executable
        return self._run(executable, program, feeds, names, scope, wait=wait)

    def run(
        self,
        program: Program,
        feeds: dict[str, Any],
        names: tuple[str, ...],
        scope: Scope,
        *,
        wait: bool,
    ) -> tuple[Any, ...]:
        """One step on one device; `wait` says that the caller reads the fetches at once."""
        executable = self._executable(program, feeds, names)
        return self._run(executable, program, feeds, names, scope, wait=wait)

    def _run(
        self,
        executable: Any,
        program: Program,
        feeds: dict[str, Any],
        names: tuple[str, ...],
        scope: Scope,
        *,
        wait: bool,
    ) -> tuple[Any, ...]:
        if program.lr_schedulers:
            write_learning_rates(program, scope)
        if not (wait and names):
            feeds = {name: array.copy() for name, array in feeds.items()}
        self.runs += 1
        return executable(feeds, scope)

    def _executable(self, program: Program, feeds: dict[str, Any], names: tuple[str, ...]) -> Any:
        compiled = self.compiled(program, tuple(feeds), names)
        shapes = tuple([(array.shape, array.dtype) for array in feeds.values()])
        return compiled.executable(shapes, 1, even=True)

    def compiled(self, program: Program, feeds: tuple[str, ...], names: tuple[str, ...]) -> Any:
        """The optimised module for these feeds and fetches."""
        key = (program.serial, program.version, feeds, names)
        found = self._compiled.get(key)
        if found is None:
            from graphopt.runtime.compile import Request, compile_program

            request = Request(program, feeds, names, self.strategy, self.places, False)
            found = self._compiled[key] = compile_program(request)
        return found

    def pruned(
        self,
        program: Program,
        names: tuple[str, ...],
        feeds: tuple[str, ...],
        updates: tuple[Operator, ...],
    ) -> Program:
        """The program without the operators that neither a fetch nor an update needs."""
        from graphopt.ir.prune import prune

        key = (program.serial, program.version, names, feeds, updates)
        if key not in self._pruned:
            self._pruned[key] = prune(program, names, feeds, updates)
        return self._pruned[key]


def feed_signature(program: Program, feed: Any, names: tuple[str, ...]) -> Any:
    """What a step depends on, None when its feed is anything but a dict of arrays."""
    if type(feed) is not dict:
        return None
    arrays: list[Any] = []
    for name, array in feed.items():
        if type(array) is not np.ndarray:
            return None
        arrays += (name, array.shape, array.dtype)
    return program.serial, program.version, names, *arrays


def passed_unchanged(program: Program, feed: dict[str, Any], feeds: dict[str, Any]) -> bool:
    """True when a feed needs no check as long as its arrays are like these."""
    block = program.global_block()
    if any(block.has_var(f"{name}{LENGTHS}") for name in feed):
        return False  # lengths are checked against rows each time
    return len(feeds) == len(feed) and all(feeds[name] is feed[name] for name in feeds)


def write_learning_rates(program: Program, scope: Scope) -> None:
    """Put the current value of each learning-rate schedule where the program reads it."""
    for name, scheduler in program.lr_schedulers.items():
        variable = program.global_block().find_var(name)
        if variable is not None:
            value = np.full(variable.shape, scheduler(), variable.dtype.numpy)
            (scope.find_var(name) or scope.var(name)).put(value)
