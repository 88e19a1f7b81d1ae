"""The time of a step with all flags of a strategy, and without each of them.

Each variant has a scope of its own with copies of the values, so a measured program trains nothing.
The variants run in turn, so that a machine that slows down slows all of them; times are medians.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from graphopt.ir.program import Program
from graphopt.ir.translate.interface import output_names
from graphopt.passes.table.report import Measured, PassRow
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.devices.places import likely_place
from graphopt.runtime.executor import Executor
from graphopt.runtime.settings.flags import full_form
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.scope import Scope, global_scope, values_in

_WARM_UP, _ROUNDS = 2, 9


def measured(
    program: Program | CompiledProgram,
    strategy: BuildStrategy,
    rows: Iterable[PassRow],
    feed: Mapping[str, Any],
    fetch_list: Any,
) -> Measured:
    """The milliseconds of a step on one device, and those that each flag with a pass saves.

    Parameters are those of the global scope: the startup program has run. Raises as `Executor.run`.
    """
    source = program if isinstance(program, Program) else program._program
    fetches = output_names(source) if fetch_list is None else fetch_list
    variants = {"": strategy}
    for flag in [row.flag for row in rows if row.fired and getattr(strategy, row.flag, 0) is True]:
        variants[flag] = strategy._copy()
        setattr(variants[flag], flag, False)
    steps = {
        name: _Step(CompiledProgram(source, variant), feed, fetches)
        for name, variant in variants.items()
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    with full_form():
        for turn in range(_WARM_UP + _ROUNDS):
            for name, step in steps.items():
                seconds = step()
                if turn >= _WARM_UP:
                    times[name].append(seconds)
    found = {name: 1e3 * median(several) for name, several in times.items()}
    whole = found.pop("")
    return Measured(whole, {flag: without - whole for flag, without in found.items()})


class _Step:
    """A program with values of its own; a call runs it once and gives the seconds."""

    def __init__(self, program: CompiledProgram, feed: Mapping[str, Any], fetches: Any) -> None:
        self.program, self.feed, self.fetches = program, feed, fetches
        self.executor, self.scope = Executor(likely_place()), Scope()
        names = [v.name for v in program._program.list_vars() if v.persistable]
        for name, value in values_in(global_scope(), names).items():
            self.scope.var(name).put(value)

    def __call__(self) -> float:
        start = time.perf_counter()
        self.executor.run(self.program, feed=self.feed, fetch_list=self.fetches, scope=self.scope)
        return time.perf_counter() - start
