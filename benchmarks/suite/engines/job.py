"""The job of every engine, and the file that gives all the same initial parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suite.workload import Arrays, Sizes, Workload

Array = np.ndarray[Any, Any]
# The environment variables by which an ablation configures graphopt's worker.
FLAGS, STEPS = "GRAPHOPT_BENCH_FLAGS", "GRAPHOPT_BENCH_STEPS"
# One step, from NumPy feeds to the loss or output in NumPy.
Step = Callable[[], Array]


@dataclass(frozen=True)
class Job:
    """A workload at one size, with the file of the parameters and the number of cores."""

    workload: Workload
    size: str
    weights: Path
    option: str
    cores: int

    @property
    def sizes(self) -> Sizes:
        """The sizes of the model and its feed."""
        return self.workload.sizes[self.size]

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of BuildStrategy, from the workload and from an ablation."""
        return (*self.workload.flags, *filter(None, os.environ.get(FLAGS, "").split(",")))

    @property
    def steps_per_call(self) -> int:
        """The steps of one call, more than one in an ablation only."""
        return int(os.environ.get(STEPS, "1"))

    @property
    def feed(self) -> Arrays:
        """The feed of every step."""
        return self.workload.example(self.size)


def save_weights(path: Path, arrays: Sequence[Array], trained: Sequence[bool]) -> None:
    """Write parameters in the order in which the program made them; some are statistics."""
    named = zip(arrays, trained, strict=True)
    held = {f"{'w' if is_trained else 's'}{n}": a for n, (a, is_trained) in enumerate(named)}
    np.savez(path, **held)


def load_weights(path: Path) -> tuple[list[Array], list[bool]]:
    """Read the parameters in the order of the program, and which of them are trained."""
    with np.load(path) as held:
        return [held[name] for name in held.files], [name[0] == "w" for name in held.files]
