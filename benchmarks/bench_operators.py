"""Single operators on the CPU compared with Paddle's, with and without their derivatives.

    python benchmarks/bench_operators.py --paddle PYTHON [--only sort,conv] [--rounds 3]

PYTHON is the interpreter of an environment with paddlepaddle 2.6.2, whose static programs have all
layers. Both engines keep running and alternate at each operator, so that a busy machine is as busy
for both; a ratio is the median over the rounds. graphopt runs the full form. The table lists the
highest ratios to Paddle first.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

WORKER = Path(__file__).with_name("operators_worker.py")
OURS = (sys.executable, "-m", "graphopt", "run")
SETTINGS = {"FLAGS_graphopt_tier": "full", "JAX_PLATFORMS": "cpu"}


class Row(NamedTuple):
    """An operator: milliseconds of both engines, and the median ratio of the rounds."""

    name: str
    ours: float
    theirs: float
    ratio: float


class Engine:
    """A worker's process, which answers one request after another."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [*command, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **SETTINGS},
            text=True,
        )
        self.operators: list[str] = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                return json.loads(line)
            except ValueError:
                continue  # other output of the engine
        raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")

    def seconds(self, name: str, with_derivatives: bool, least: float) -> float | str:
        """Measure the median over runs of `least` seconds; return the reason for a failure."""
        assert self._process.stdin is not None
        print(json.dumps([name, with_derivatives, least]), file=self._process.stdin, flush=True)
        return self._answer()


def measure(
    engines: tuple[Engine, Engine], name: str, with_derivatives: bool, rounds: int
) -> Row | str:
    """Measure one operator, or return the reason for a failure."""
    shown = f"{name}, derivatives" if with_derivatives else name
    turns: list[tuple[float, float]] = []
    for number in range(rounds + 1):
        found: dict[int, float] = {}
        for which in (0, 1) if number % 2 else (1, 0):
            least = 0.2 if number else 0.0  # the first turn compiles
            seconds = engines[which].seconds(name, with_derivatives, least)
            if isinstance(seconds, str):
                return f"{shown}: {'graphopt' if which == 0 else 'Paddle'}: {seconds}"
            found[which] = seconds
        turns.append((found[0], found[1]))
    ours, theirs = ([turn[which] for turn in turns[1:]] for which in (0, 1))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return Row(shown, statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3, ratio)


def report(rows: Sequence[Row], missing: Sequence[str]) -> list[str]:
    """Format the table, the highest ratios to Paddle first."""
    lines = ["| operator | graphopt, ms | Paddle, ms | ratio |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: -row.ratio):
        lines.append(f"| {row.name} | {row.ours:.2f} | {row.theirs:.2f} | {row.ratio:.2f} |")
    if rows:
        mean = math.exp(statistics.fmean(math.log(row.ratio) for row in rows))
        slower = sum(row.ratio > 1 for row in rows)
        lines += ["", f"{len(rows)} programs, geometric mean {mean:.2f}, {slower} above 1."]
    return lines + [f"- {reason}" for reason in missing]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--paddle", required=True, help="the Python of Paddle's environment")
    options.add_argument("--only", default="", help="names, or parts of them, between commas")
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    engines = Engine(OURS), Engine([arguments.paddle])
    wanted = [name for name in arguments.only.split(",") if name]
    rows: list[Row] = []
    missing: list[str] = []
    for name in engines[0].operators:
        if wanted and not any(each in name for each in wanted):
            continue
        for with_derivatives in (False, True):
            found = measure(engines, name, with_derivatives, arguments.rounds)
            if isinstance(found, Row):
                rows.append(found)
                print(f"{found.name}: {found.ratio:.2f}", file=sys.stderr, flush=True)
            elif not with_derivatives:  # many operators have no derivative
                missing.append(found)
    print("\n".join(report(rows, missing)))


if __name__ == "__main__":
    main()
