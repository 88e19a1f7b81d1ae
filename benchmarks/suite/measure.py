"""One workload on all engines: checked, then timed alternately, so that noise affects all alike."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suite.engines import BASELINE, ENGINES, OURS, Engine
from suite.process import Process, WorkerError, python_of
from suite.workload import Workload

Environment = Mapping[str, str]
# By name, an engine and its environment variables.
Variants = Mapping[str, tuple[Engine, Environment]]
# A pause in seconds between turns, in which the last engine's spinning threads go to sleep.
PAUSE = 0.02


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds, seconds of one turn, and seconds of all rounds at most."""

    rounds: int = 9
    turn: float = 0.1
    most: float = 40.0


@dataclass
class Bench:
    """The state that all workloads of a run share."""

    peers: Path
    cores: int
    log: Path
    size: str = "full"
    effort: Effort = field(default_factory=Effort)
    environment: Environment = field(default_factory=dict)
    limit: Callable[[], float | None] = lambda: None
    """The seconds within which a worker must answer; None for no limit."""
    ahead: dict[tuple[str, str], Process] = field(default_factory=dict)
    """Workers started ahead, by workload and variant."""

    def begin(self, workload: Workload, variants: Variants) -> None:
        """Start the next workers ahead, so that their imports overlap other work."""
        for name, (engine, more) in variants.items():
            if (workload.name, name) not in self.ahead:
                with suppress(WorkerError):
                    process = self.start(engine, workload, more)
                    process.tell("prepare")
                    self.ahead[workload.name, name] = process

    def taken(self, name: str, engine: Engine, workload: Workload, more: Environment) -> Process:
        """Take the worker that was started ahead, or start a new one."""
        return self.ahead.pop((workload.name, name), None) or self.start(engine, workload, more)

    def end(self) -> None:
        """End the workers that were started ahead but not taken."""
        for process in self.ahead.values():
            process.end()
        self.ahead.clear()

    def start(self, engine: Engine, workload: Workload, more: Environment) -> Process:
        """Start a worker; WorkerError when its environment is absent."""
        python = python_of(engine.environment, self.peers)
        if python is None:
            raise WorkerError(f"no environment: make bench-peers builds {engine.environment}")
        return Process(
            engine,
            [workload.name, self.size],
            python=python,
            cores=self.cores,
            environment={**self.environment, **more},
            log=self.log,
            limit=self.limit,
        )


def engines_of(workload: Workload, wanted: tuple[str, ...]) -> list[Engine]:
    """List our engine, the baseline, and the wanted peers that have the workload."""
    names = [OURS, BASELINE, *(name for name in wanted if name not in (OURS, BASELINE))]
    return [ENGINES[name] for name in names if ENGINES[name].can_run(workload)]


def measure(bench: Bench, workload: Workload, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Measure a workload; the result can be written as JSON."""
    variants = {engine.name: (engine, {}) for engine in engines_of(workload, wanted)}
    return compare(bench, workload, variants, must_agree=BASELINE)


def compare(
    bench: Bench,
    workload: Workload,
    variants: Variants,
    *,
    must_agree: str,
) -> dict[str, Any]:
    """Start the variants and time them alternately, or in sequence where one fills a device.

    The first one makes the parameters, and all are compared with it. AssertionError when the values
    of `must_agree` differ by more than the workload's tolerance.
    """
    rows: dict[str, dict[str, Any]] = {name: {} for name in variants}
    groups = [{name: each} for name, each in variants.items()] if workload.alone else [variants]
    with tempfile.TemporaryDirectory() as folder:
        for group in groups:
            with ExitStack() as stack:
                live = started(bench, workload, group, rows, stack, Path(folder) / "weights.npz")
                if not workload.alone:
                    check(workload, rows, must_agree)
                timed(bench, workload, live, rows)
    if workload.alone:
        check(workload, rows, must_agree)
    for row in rows.values():
        summarize(row)
    return described(workload) | {"engines": rows}


def timed(
    bench: Bench, workload: Workload, live: dict[str, Process], rows: dict[str, dict[str, Any]]
) -> None:
    """Add times and memory of these workers to `rows`; no other work runs meanwhile."""
    for process in bench.ahead.values():
        with suppress(WorkerError):
            process.wait()
    for name, process in [] if workload.compile_only else [*live.items()]:
        try:
            process.ask("settle")
        except WorkerError as error:
            rows[name] |= {"skipped": str(error)}
            del live[name]
    for name, seconds in turns(live, bench.effort).items():
        rows[name] |= live[name].ask("memory") | {"steps_s": seconds}


def started(
    bench: Bench,
    workload: Workload,
    variants: Variants,
    rows: dict[str, dict[str, Any]],
    stack: ExitStack,
    weights: Path,
) -> dict[str, Process]:
    """Start the workers, and return those that could start; their facts go into `rows`."""
    live: dict[str, Process] = {}
    for name, (engine, more) in variants.items():
        try:
            process = bench.taken(name, engine, workload, more)
            stack.callback(process.end)
            rows[name] |= process.ask("prepare")
            rows[name] |= process.ask("start", weights=str(weights))
            live[name] = process
        except WorkerError as error:
            rows[name] |= {"skipped": str(error)}
    return live


def described(workload: Workload) -> dict[str, Any]:
    """Describe a workload for a report."""
    return {
        "title": workload.title,
        "training": workload.training,
        "compile_only": workload.compile_only,
    }


def check(workload: Workload, rows: dict[str, dict[str, Any]], must_agree: str) -> None:
    """Record the difference of each from the first; the values themselves are not kept."""
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
    """Compute the largest difference relative to the largest number; None for another shape."""
    if found.shape != expected.shape:
        return None
    return float(np.max(np.abs(found - expected))) / max(float(np.max(np.abs(expected))), 1e-30)


def turns(live: Mapping[str, Process], effort: Effort) -> dict[str, list[float]]:
    """Measure seconds per step of each worker in each round; the order alternates by round."""
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
    """Estimate the number of steps that fill a turn, at least one."""
    once = process.ask("time", steps=1)["step_s"]
    if once < turn / 10:
        once = process.ask("time", steps=10)["step_s"]
    return max(1, min(10_000, round(turn / once)))


def summarize(row: dict[str, Any]) -> None:
    """Compute the median step, and the excess of the first step: the compile time."""
    if "steps_s" in row:
        row["step_s"] = statistics.median(row["steps_s"])
        row["compile_s"] = max(0.0, row.pop("first_step_s") - row["step_s"])
