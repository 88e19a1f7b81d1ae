"""Run the suite: `python -m suite` in benchmarks/, or `make bench`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite import gpu, machine, report
from suite.ablate import ALL, ablations
from suite.engines import ENGINES
from suite.measure import Bench, Effort, measure
from suite.overhead import overhead
from suite.workloads import BY_NAME

ROOT = Path(__file__).parents[2]
QUICK = Effort(rounds=3, turn=0.05, most=6.0)
NAMES = "names, with commas"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m suite", description=__doc__)
    parser.add_argument("--workloads", default=",".join(BY_NAME), help=NAMES)
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"peers: {NAMES}")
    parser.add_argument(
        "--ablate", metavar="PASS", help=f"only what passes are worth: {NAMES}, or {ALL}"
    )
    parser.add_argument("--gpu", action="store_true", help="the run on a GPU: see suite/gpu.py")
    parser.add_argument("--parts", default="", help=f"of the run on a GPU: {NAMES}")
    parser.add_argument("--minutes", type=float, default=12.0, help="for the run on a GPU")
    parser.add_argument("--missing", action="store_true", help="parts that the folder lacks")
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"), help="cpu: a trial")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--size", default="full", choices=("full", "toy"))
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers")
    given = parser.parse_args(arguments)
    for option, known in (("workloads", BY_NAME), ("engines", ENGINES)):
        for name in getattr(given, option).split(","):
            if name not in known:
                parser.error(f"--{option}: there is no {name!r}; known are {', '.join(known)}")
    return given


def main(arguments: list[str] | None = None) -> None:
    """Run the requested measurements; results of earlier runs stay in the folder."""
    given = options(arguments)
    if given.gpu:
        gpu.run(given)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    effort = QUICK if given.quick else Effort()
    bench = Bench(given.peers, machine.cores(), given.out / "workers.log", given.size, effort)
    path = given.out / "bench.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    found |= machine.describe(given.peers)
    for _ in parts(bench, given, found):
        path.write_text(json.dumps(found, indent=1) + "\n")
    report.write(given.out)
    print(f"wrote {given.out}/README.md", file=sys.stderr)


def parts(bench: Bench, given: argparse.Namespace, found: dict[str, Any]) -> Iterator[None]:
    """Fill `found` part by part, so that an interrupted run leaves its results."""
    workloads = found.setdefault("workloads", {})
    if given.ablate:
        rows = {name_of(row): row for row in found.get("ablations", [])}
        for row in ablations(bench, given.ablate):
            tell(f"{row['pass']}: {row}")
            rows[name_of(row)] = row
            found["ablations"] = list(rows.values())
            found["ablated"], found["ablated_on"] = found["date"][:10], machine.processor()
            yield
        return
    for name in given.workloads.split(","):
        tell(f"{name} …")
        workloads[name] = measure(bench, BY_NAME[name], tuple(given.engines.split(",")))
        tell(report.line(workloads[name]))
        yield
    found["overhead"] = list(overhead(workloads, compiling=given.size == "full"))
    yield


def name_of(ablation: dict[str, Any]) -> tuple[str, str]:
    """Key an ablation by pass and workload: a new measurement replaces the old one."""
    return ablation["pass"], ablation.get("workload", "")


def tell(text: str) -> None:
    """Print the progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
