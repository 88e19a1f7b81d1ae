"""One engine with one workload in a process of its own, spoken to in lines of JSON over pipes.

    python -m suite.worker ENGINE WORKLOAD SIZE WEIGHTS CORES

Whatever a library prints goes to standard error. Answers have "error" when something went wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from suite.engines import ENGINES
from suite.engines.job import Job
from suite.memory import peak_bytes
from suite.workloads import EVERY

CHECKED_STEPS = 3
MOST_VALUES = 1000


class Worker:
    """The commands that the other side may give."""

    def __init__(self, engine: str, workload: str, size: str, weights: str, cores: str) -> None:
        made = ENGINES[engine]
        self.job = Job(EVERY[workload], size, Path(weights), made.option, int(cores))
        self.engine = importlib.import_module(f"suite.engines.{made.module}")
        self.step: Any = None

    def start(self) -> dict[str, Any]:
        """Build the model and run the first steps."""
        imported, begun = peak_bytes(), time.perf_counter()
        self.step = self.engine.start(self.job)
        built = time.perf_counter()
        values = [np.asarray(self.step(), "float64").ravel()]
        first = time.perf_counter() - built
        values += [np.asarray(self.step(), "float64").ravel() for _ in range(CHECKED_STEPS - 1)]
        kept = values if self.job.workload.training else values[-1:]
        return {
            "build_s": built - begun,
            "first_step_s": first,
            "imported_bytes": imported,
            "values": np.concatenate(kept)[:MOST_VALUES].tolist(),
        }

    def settle(self) -> dict[str, Any]:
        """Run the step until it stays as it is."""
        if hasattr(self.step, "settle"):
            self.step.settle()
        return {}

    def time(self, steps: int) -> dict[str, Any]:
        """Seconds of one step, the mean over some calls."""
        begun = time.perf_counter()
        for _ in range(steps):
            self.step()
        return {"step_s": (time.perf_counter() - begun) / steps / self.job.steps_per_call}

    def memory(self) -> dict[str, Any]:
        """The most memory that this process ever had."""
        return {"peak_bytes": peak_bytes()}


def main() -> None:
    """Answer commands until there are none."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            worker = worker or Worker(*sys.argv[1:])
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
