"""The overhead of graphopt: a step, the way to XLA, the import (`python -m suite.overhead`)."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from suite.engines import BASELINE, OURS

Row = dict[str, Any]
STEP_US, SHARE, IMPORT_S = 6.0, 10.0, 0.3
TINY = "tiny-fc"
IMPORTS = 9


def overhead(results: Mapping[str, Any], *, compiling: bool) -> Iterator[Row]:
    """Yield a row for each overhead; compile times only with `compiling`, as they take long."""
    if TINY in results:
        yield row("`Executor.run` of the tiny step, above plain JAX", step(results), "µs", STEP_US)
    yield row("`import graphopt`", imported(), "s", IMPORT_S)
    if compiling:
        done = subprocess.run(
            [sys.executable, "-m", "suite.overhead"], capture_output=True, check=True, text=True
        )
        yield from json.loads(done.stdout.splitlines()[-1])


def row(what: str, measured: float, unit: str, goal: float) -> Row:
    """Build a row of the report."""
    return {"what": what, "measured": measured, "unit": unit, "goal": goal}


def step(results: Mapping[str, Any]) -> float:
    """Compute the extra microseconds of the tiny step, the median of the rounds."""
    rows = results[TINY]["engines"]
    pairs = zip(rows[OURS]["steps_s"], rows[BASELINE]["steps_s"], strict=True)
    return 1e6 * statistics.median(ours - plain for ours, plain in pairs)


def imported() -> float:
    """Measure seconds of the import, without the start of Python."""

    def seconds(code: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begun

    return statistics.median(seconds("import graphopt") - seconds("pass") for _ in range(IMPORTS))


def compiling() -> Iterator[Row]:
    """Measure our part of the compile time, for each model of `bench_executable.py`."""
    import jax
    from bench_executable import MODELS, once

    jax.config.update("jax_enable_compilation_cache", False)
    for name, build in MODELS.items():
        seconds, _ = once(build, test="inference" in name)
        cpu = {stage: pair[0] for stage, pair in seconds.items()}
        share = 100 * (cpu["parse"] + cpu["passes"] + cpu["trace"]) / cpu["XLA compile"]
        yield row(f"parse, passes and trace of {name}, against XLA", share, "%", SHARE)


if __name__ == "__main__":
    print(json.dumps(list(compiling())))
