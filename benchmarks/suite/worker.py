"""One engine with one workload in its own process, controlled by lines of JSON over pipes.

    python -m suite.worker ENGINE WORKLOAD SIZE CORES

The output of libraries goes to standard error. An answer has "error" when its command failed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suite.engines import ENGINES
from suite.engines.job import Job
from suite.memory import device_bytes, peak_bytes
from suite.workloads import EVERY

CHECKED_STEPS = 3
MOST_VALUES = 1000


class Worker:
    """The commands that the suite may send."""

    def __init__(self, began: float, engine: str, workload: str, size: str, cores: str) -> None:
        made = ENGINES[engine]
        self.job = Job(EVERY[workload], size, Path(), made.option, int(cores))
        self.engine = importlib.import_module(f"suite.engines.{made.module}")
        self.step: Any = None
        self.began, self.prepared_s = began, 0.0

    def prepare(self) -> dict[str, Any]:
        """Wait for the imports and the device, which every program of the framework needs."""
        if not self.prepared_s:
            if hasattr(self.engine, "prepare"):
                self.engine.prepare()
            self.prepared_s = time.time() - self.began
        return {"prepared_s": self.prepared_s}

    def start(self, weights: str) -> dict[str, Any]:
        """Build the model with the parameters of a file and run the first steps."""
        self.job = replace(self.job, weights=Path(weights))
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
        """Run the step until its form is final."""
        if hasattr(self.step, "settle"):
            self.step.settle()
        return {}

    def time(self, steps: int) -> dict[str, Any]:
        """Measure the seconds of one step, the mean over some calls."""
        begun = time.perf_counter()
        for _ in range(steps):
            self.step()
        return {"step_s": (time.perf_counter() - begun) / steps / self.job.steps_per_call}

    def memory(self) -> dict[str, Any]:
        """Collect the process's peak memory, and the facts of the step."""
        known = getattr(self.step, "facts", dict)()
        if self.job.workload.on_device and hasattr(self.engine, "model_flops"):
            known["flops"] = self.engine.model_flops(self.job)
        return {"peak_bytes": peak_bytes(), **device_bytes(), **known}


def main() -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker, began = None, float(os.environ.get("SUITE_BEGAN", time.time()))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            worker = worker or Worker(began, *sys.argv[1:])
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
