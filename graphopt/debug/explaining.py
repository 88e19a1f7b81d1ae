"""`graphopt.explain`: the rewrites of a program, and their validation.

The report comes from `runtime/explain.py`. The validator is added here: it is part of
`graphopt.reference`, which the stages do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.frontend.tracing import TracedFunction
from graphopt.passes.engine.validation import Validator
from graphopt.passes.table.added import GivenPass
from graphopt.runtime.explain import Explanation, explained_strategy
from graphopt.runtime.explain import explain as explain_passes
from graphopt.runtime.settings.progress import announced
from graphopt.runtime.settings.strategies import BuildStrategy


def standard_validator() -> Validator:
    """The validator of `--validate`: the reference interpreter, loaded now."""
    from graphopt.reference.validator import validate

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
    """The effects of the passes of `build_strategy` on `program`, with near misses and reasons.

    `fetch_list` are the variables that a run would fetch, which stop fusions that would remove
    them; by default a saved model's outputs, else the losses and the values without readers. A
    CompiledProgram brings its own strategy, and so does the latest trace of a function or layer of
    `paddle.jit.to_static`. `passes` (names, classes or instances of ModulePass) run after the
    fusions, as those of the CompiledProgram do, or of the blocks of `adding` around. With `strict`
    a flag that does nothing raises StrictError. With `validate` every rewrite is compared with what
    it replaces, in a NumPy interpreter; one that computes something else is undone and reported as
    declined, with the reason `failed-validation`. `measure` is a feed: steps with all flags, and
    without each of those that fired, are then run on one device and timed, with copies of the
    values in the global scope. Raises TypeError for anything that is not a program, FetchError for
    an unknown fetch, and with `measure` what `Executor.run` raises.
    """
    validator = standard_validator() if validate else None
    traced = program if isinstance(program, TracedFunction) else getattr(program, "forward", None)
    chosen: Any = program
    if isinstance(traced, TracedFunction):
        fetch_list = traced.output_names() if fetch_list is None else fetch_list
        chosen = traced.compiled_program()
    what = "validating rewrites" if validate else "explaining"
    with announced(lambda: what, files=False):
        found = explain_passes(
            chosen, build_strategy, fetch_list, passes=passes, strict=strict, validator=validator
        )
    if measure is not None:
        from graphopt.debug.measuring import measured

        with announced(lambda: "measuring steps", files=False):
            strategy = explained_strategy(chosen, build_strategy, passes)
            found.report.measured = measured(chosen, strategy, found.table(), measure, fetch_list)
    return found
