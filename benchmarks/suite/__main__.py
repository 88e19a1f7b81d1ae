"""Run the suite: `python -m suite` in benchmarks/, or `make bench`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from suite import report
from suite.engines import ENGINES
from suite.machine import describe
from suite.measure import Bench, Effort, measure
from suite.workloads import BY_NAME

ROOT = Path(__file__).parents[2]
QUICK = Effort(rounds=3, turn=0.05, most=10.0)


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m suite", description=__doc__)
    parser.add_argument("--workloads", default=",".join(BY_NAME), help="names, with commas")
    parser.add_argument("--engines", default=",".join(ENGINES), help="names, with commas")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--size", default="full", choices=("full", "toy"))
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure and report."""
    given = options(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    bench = Bench(
        given.peers,
        cores or 1,
        given.out / "workers.log",
        given.size,
        QUICK if given.quick else Effort(),
    )
    found: dict[str, Any] = describe() | {"workloads": {}}
    for name in given.workloads.split(","):
        print(f"== {name}", file=sys.stderr, flush=True)
        found["workloads"][name] = measure(bench, BY_NAME[name], tuple(given.engines.split(",")))
        (given.out / "bench.json").write_text(json.dumps(found, indent=1))
        print(report.line(found["workloads"][name]), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
