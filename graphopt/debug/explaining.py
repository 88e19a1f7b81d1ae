"""`graphopt.explain`: the rewrites of a program, their validation, and the time that they save.

The report comes from `runtime/explain.py`. The validator is added here: it is part of
`graphopt.reference`, which the stages do not know. Each measured variant has a scope of its own
with copies of the values, so it trains nothing. The variants run in turn, so that a machine that
slows down slows all of them; times are medians.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from graphopt.frontend.tracing import TracedFunction
from graphopt.ir.program import Program
from graphopt.ir.translate.interface import output_names
from graphopt.passes.engine.validation import Validator
from graphopt.passes.table.added import GivenPass
from graphopt.passes.table.report import Measured, PassRow
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.devices.places import likely_place
from graphopt.runtime.executor import Executor
from graphopt.runtime.explain import Explanation, explained_strategy
from graphopt.runtime.explain import explain as explain_passes
from graphopt.runtime.settings.flags import full_form
from graphopt.runtime.settings.progress import announce
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.scope import Scope, global_scope, values_in

_WARM_UP, _ROUNDS = 2, 9


def measure_flags(
    program: Program | CompiledProgram,
    strategy: BuildStrategy,
    rows: Iterable[PassRow],
    feed: Mapping[str, Any],
    fetch_list: Any,
) -> Measured:
    """Measure the milliseconds of a step on one device, and the time that each flag saves.

    Only flags whose passes fired are measured. Parameters are those of the global scope: the
    startup program has run. Raises as `Executor.run`.
    """
    source = program if isinstance(program, Program) else program._program
    fetches = output_names(source) if fetch_list is None else fetch_list
    variants = {"": strategy}
    for flag in [row.flag for row in rows if row.fired and getattr(strategy, row.flag, 0) is True]:
        variants[flag] = strategy._copy()
        setattr(variants[flag], flag, False)
    steps = {
        name: _TimedStep(CompiledProgram(source, variant), feed, fetches)
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


class _TimedStep:
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


def standard_validator() -> Validator:
    """Import the validator of `--validate`: the reference interpreter."""
    from graphopt.reference.programs import validate

    return validate


def explain(
    program: Any,
    build_strategy: BuildStrategy | None = None,
    fetch_list: Any = None,
    *,
    passes: Sequence[GivenPass] = (),
    strict: bool = False,
    validate: bool = False,
    measure: Mapping[str, Any] | None = None,
) -> Explanation:
    """Report the effects of a strategy's passes on `program`, with near misses and reasons.

    `fetch_list` are the variables that a run would fetch, which stop fusions that would remove
    them; by default a saved model's outputs, else the losses and the values without readers. A
    CompiledProgram brings its own strategy, and so does the latest trace of a function or layer of
    `paddle.jit.to_static`. `passes` (names, classes or instances of ModulePass) run after the
    fusions, like the passes of the CompiledProgram, or of the enclosing `adding` blocks. With
    `strict` a flag that does nothing raises StrictError. With `validate` every rewrite is compared
    with the ops that it replaces, in a NumPy interpreter; a rewrite that computes something else is
    undone and reported as declined, with the reason `failed-validation`. `measure` is a feed: steps
    with all flags, and without each flag that fired, are then run on one device and timed, with
    copies of the values in the global scope. Raises TypeError for anything that is not a program,
    FetchError for an unknown fetch, and with `measure` the errors of `Executor.run`.
    """
    validator = standard_validator() if validate else None
    traced = program if isinstance(program, TracedFunction) else getattr(program, "forward", None)
    chosen: Any = program
    if isinstance(traced, TracedFunction):
        fetch_list = traced.output_names() if fetch_list is None else fetch_list
        chosen = traced.compiled_program()
    what = "validating rewrites" if validate else "explaining"
    with announce(lambda: what, files=False):
        found = explain_passes(
            chosen, build_strategy, fetch_list, passes=passes, strict=strict, validator=validator
        )
    if measure is not None:
        with announce(lambda: "measuring steps", files=False):
            strategy = explained_strategy(chosen, build_strategy, passes)
            found.report.measured = measure_flags(
                chosen, strategy, found.table(), measure, fetch_list
            )
    return found
