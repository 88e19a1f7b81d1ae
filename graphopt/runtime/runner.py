"""Runner: compiles programs for fixed places and a strategy, and runs steps of them."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, proxy

import numpy as np

from graphopt.ir.program import LENGTHS, Operator, Program
from graphopt.runtime.compilation import Compilation
from graphopt.runtime.feed import single_feed
from graphopt.runtime.flags import checks_nan_inf
from graphopt.runtime.jax_import import import_jax
from graphopt.runtime.kept import MOST_COMPILED, KeptPrograms, Ready, choose, ready_of
from graphopt.runtime.places import Place
from graphopt.runtime.scope import Scope

# More kinds of steps than this are looked up in several stages again.
MOST_READY = 256


class Runner:
    """Compiles programs for fixed places and strategy, and remembers what it compiled."""

    def __init__(self, places: tuple[Place, ...], strategy: Any = None) -> None:
        self.places = places
        self.strategy = strategy
        self.runs = 0
        self._kept = KeptPrograms()
        self._pruned: WeakKeyDictionary[Program, dict[Any, Program]] = WeakKeyDictionary()
        self._ready: dict[Any, Ready] = {}

    @property
    def stats(self) -> dict[str, Any]:
        """The numbers of compiled programs, with reasons, and of runs."""
        return {
            "compiled_programs": len(self.all_compiled()),
            "compiled_shapes": sum(len(c.executables) for c in self.all_compiled()),
            "op_by_op": sum(
                executable.replicated.name == "by_op"
                for compiled in self.all_compiled()
                for executable in compiled.executables.values()
            ),
            "runs": self.runs,
            "reasons": self._kept.stats(self.all_compiled()),
        }

    def all_compiled(self) -> list[Any]:
        """The optimised modules that are kept, one for each program, feeds and set of fetches."""
        return self._kept.all()

    def step(
        self, program: Program, feed: Any, names: tuple[str, ...], scope: Scope, *, wait: bool
    ) -> tuple[Any, ...]:
        """Check a feed and run one step on one device.

        A dict of arrays like one that passed before, unchanged, is not looked at again: in a
        training loop the checks would cost more than the call of a small step.
        """
        key = feed_signature(program, feed, names)
        ready = self._ready.get(key)
        executable = ready() if ready is not None else None
        if executable is not None:
            return self._run(executable, program, feed, names, scope, wait=wait)
        feeds = single_feed(program, feed)
        executable = self._executable(program, feeds, names)
        if key is not None and passed_unchanged(program, feed, feeds):
            if len(self._ready) >= MOST_READY:
                self._ready.clear()
            self._ready[key] = ready_of(executable)
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
        fed = tuple(feeds)

        def make(fetches: tuple[str, ...]) -> Any:
            import_jax()
            from graphopt.runtime.compile import compile_program

            # what is kept must not keep the program
            return compile_program(
                Compilation(proxy(program), fed, fetches, self.strategy, self.places)
            )

        shapes = tuple([(array.shape, array.dtype) for array in feeds.values()])
        rows = max((shape[0] for shape, _ in shapes if shape), default=1)
        compiled, served = self._kept.find(program, (fed, checks_nan_inf()), names, rows, make)
        return choose(compiled.executable(shapes, 1, even=True), served, names)

    def pruned(
        self,
        program: Program,
        names: tuple[str, ...],
        feeds: tuple[str, ...],
        updates: tuple[Operator, ...],
    ) -> Program:
        """The program without the operators that neither a fetch nor an update needs."""
        from graphopt.ir.translate.prune import prune

        found = self._pruned.setdefault(program, {})
        key = (program.version, names, feeds, updates)
        if key not in found:
            if len(found) >= MOST_COMPILED:
                del found[next(iter(found))]
            found[key] = prune(program, names, feeds, updates)
        return found[key]


def feed_signature(program: Program, feed: Any, names: tuple[str, ...]) -> Any:
    """The key of a step, None when its feed is anything but a dict of arrays."""
    if type(feed) is not dict:
        return None
    arrays: list[Any] = []
    for name, array in feed.items():
        if type(array) is not np.ndarray:
            return None
        arrays += (name, array.shape, array.dtype)
    return program.serial, program.version, names, checks_nan_inf(), *arrays


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
