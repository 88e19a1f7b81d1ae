"""One workload on all engines: checked, then timed in turns, so that noise disturbs all alike."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suite.engines import BASELINE, ENGINES, OURS, Engine
from suite.process import Process, WorkerError, python_of
from suite.workload import Workload

Environment = Mapping[str, str]
# Each an engine with environment variables.
Variants = Mapping[str, tuple[Engine, Environment]]
# Between turns, so that threads that still spin for the last engine go to sleep.
PAUSE = 0.02


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds, seconds of one turn, and seconds of all rounds at most."""

    rounds: int = 9
    turn: float = 0.1
    most: float = 40.0


@dataclass
class Bench:
    """What all workloads of a run share."""

    peers: Path
    cores: int
    log: Path
    size: str = "full"
    effort: Effort = field(default_factory=Effort)
    environment: Environment = field(default_factory=dict)

    def start(
        self, engine: Engine, workload: Workload, weights: Path, more: Environment
    ) -> Process:
        """A worker; WorkerError when its environment is absent."""
        python = python_of(engine.environment, self.peers)
        if python is None:
            raise WorkerError(f"no environment: make bench-peers builds {engine.environment}")
        return Process(
            engine,
            [workload.name, self.size, str(weights)],
            python=python,
            cores=self.cores,
            environment={**self.environment, **more},
            log=self.log,
        )


def engines_of(workload: Workload, wanted: tuple[str, ...]) -> list[Engine]:
    """Ours and the baseline, and the peers that are wanted, as far as they have the workload."""
    names = [OURS, BASELINE, *(name for name in wanted if name not in (OURS, BASELINE))]
    return [ENGINES[name] for name in names if ENGINES[name].can_run(workload)]


def measure(bench: Bench, workload: Workload, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Everything about one workload, ready for JSON."""
    variants = {engine.name: (engine, {}) for engine in engines_of(workload, wanted)}
    return compare(bench, workload, variants, must_agree=BASELINE)


def compare(
    bench: Bench,
    workload: Workload,
    variants: Variants,
    *,
    must_agree: str,
) -> dict[str, Any]:
    """Start the variants and time them in turns.

    The first one makes the parameters, and all are compared with it. AssertionError when what
    `must_agree` computes differs by more than the workload's tolerance.
    """
    found = described(workload)
    rows: dict[str, dict[str, Any]] = {name: {} for name in variants}
    with ExitStack() as stack:
        live = started(bench, workload, variants, rows, stack)
        check(workload, rows, must_agree)
        if not workload.compile_only:
            for process in live.values():
                process.ask("settle")
        for name, seconds in turns(live, bench.effort).items():
            rows[name] |= live[name].ask("memory") | {"steps_s": seconds}
    for row in rows.values():
        summarize(row)
    return found | {"engines": rows}


def started(
    bench: Bench,
    workload: Workload,
    variants: Variants,
    rows: dict[str, dict[str, Any]],
    stack: ExitStack,
) -> dict[str, Process]:
    """The workers that could start, with what they said in `rows`."""
    weights = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "weights.npz"
    live: dict[str, Process] = {}
    for name, (engine, more) in variants.items():
        try:
            process = bench.start(engine, workload, weights, more)
            stack.callback(process.end)
            rows[name] |= process.ask("start")
            live[name] = process
        except WorkerError as error:
            rows[name] |= {"skipped": str(error)}
    return live


def described(workload: Workload) -> dict[str, Any]:
    """What a report says about a workload."""
    return {
        "title": workload.title,
        "training": workload.training,
        "compile_only": workload.compile_only,
    }


def check(workload: Workload, rows: dict[str, dict[str, Any]], must_agree: str) -> None:
    """Note how far each is from the first; the values themselves are not kept."""
    values = {name: np.array(row.pop("values")) for name, row in rows.items() if "values" in row}
    expected = next(iter(values.values()), np.zeros(0))
    for name, found in values.items():
        rows[name]["difference"] = difference(found, expected)
    if must_agree in values:
        found = rows[must_agree]["difference"]
        assert found is not None and found <= workload.tolerance, (
            f"{workload.name}: {must_agree} and graphopt differ by {found}"
        )


def difference(found: Any, expected: Any) -> float | None:
    """The largest difference against the largest number; None for another shape."""
    if found.shape != expected.shape:
        return None
    return float(np.max(np.abs(found - expected))) / max(float(np.max(np.abs(expected))), 1e-30)


def turns(live: Mapping[str, Process], effort: Effort) -> dict[str, list[float]]:
    """Seconds per step of each worker in each round; the order is reversed every other round."""
    steps = {n: calibrated(process, effort.turn) for n, process in live.items()}
    times: dict[str, list[float]] = {name: [] for name in live}
    begun = time.perf_counter()
    for number in range(effort.rounds):
        for name in live if number % 2 == 0 else reversed(live):
            time.sleep(PAUSE)
            times[name].append(live[name].ask("time", steps=steps[name])["step_s"])
        if number >= 2 and time.perf_counter() - begun > effort.most:
            break
    return times


def calibrated(process: Process, turn: float) -> int:
    """How many steps fill a turn, at least one."""
    once = process.ask("time", steps=1)["step_s"]
    if once < turn / 10:
        once = process.ask("time", steps=10)["step_s"]
    return max(1, min(10_000, round(turn / once)))


def summarize(row: dict[str, Any]) -> None:
    """The median step, and what the first step took longer: the time to compile."""
    if "steps_s" in row:
        row["step_s"] = statistics.median(row["steps_s"])
        row["compile_s"] = max(0.0, row.pop("first_step_s") - row["step_s"])
