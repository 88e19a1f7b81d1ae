"""The work of `graphopt replay` on a file, and the reference results."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import Array
from graphopt.debug.differences import Difference, DifferenceKind, Evaluate, Tolerance, run
from graphopt.debug.oracles import FLOAT64, UNOPTIMIZED
from graphopt.debug.program_source import steps_of_file
from graphopt.debug.search import Suspect
from graphopt.errors import FeedError, UnsupportedError
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.replay_file import ReplayFile


def replay(file: ReplayFile, data: Mapping[str, Array] | None = None) -> Difference | None:
    """Run a replay file and return the difference; None without one.

    Raises FeedError for inputs that neither the file nor `data` has, and VerifyException for an
    invalid program.
    """
    file.module.verify()
    suspect = suspect_of(file, data)
    if file.kind == DifferenceKind.PASS.value:
        passed = suspect.run_passes(file.limit)
        return suspect.judge(passed) if passed.failed >= 0 else None
    lacking = [p.name for p in signature_of(file.module).arguments if p.name not in suspect.inputs]
    if lacking:
        raise FeedError(
            f"the file contains no values for {', '.join(lacking)}; give them with --data"
        )
    return suspect.judge(suspect.trial(file.limit))


def suspect_of(file: ReplayFile, data: Mapping[str, Array] | None = None) -> Suspect:
    """Build the suspect of a file: its program, steps and inputs."""
    return Suspect(
        file.module,
        steps_of_file(file),
        {**file.arrays(), **(data or {})},
        functools.partial(run, seed=file.seed),
        reference(file.against, file.seed),
        Tolerance(file.rtol, file.atol),
        file.verify_each,
    )


def reference(against: str, seed: int) -> Evaluate:
    """Return the evaluator of the right results; ValueError for an unknown word."""
    if against == UNOPTIMIZED:
        return functools.partial(run, seed=seed)
    if against == FLOAT64:
        return _float64
    raise ValueError(f"--against should be {UNOPTIMIZED} or {FLOAT64}, found {against}")


def _float64(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute the results in float64, rounded once, to the dtypes of the program."""
    from graphopt.reference import evaluate

    drawing = next((op for op in module.walk() if draws(op)), None)
    if drawing is not None:
        raise UnsupportedError(
            f"{show_op(drawing)} draws random numbers, which differ between NumPy and JAX; compare "
            f"with --against {UNOPTIMIZED}"
        )
    dtypes = {f"{p.kind} {p.name}": dtype_of(p.type) for p in signature_of(module).results}
    results = evaluate(module, inputs, precision="float64")
    return {name: array.astype(dtypes[name].numpy) for name, array in results.items()}
