"""The goals of graphopt for each workload, and the reasons for missed ones.

A goal is an upper bound for a ratio of graphopt to an opponent: time of a step, or compile time
where the workload measures that. Lower is better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from suite.engines import BASELINE, ENGINES, OURS

Row = Mapping[str, Any]
MEMORY = "memory"
GEOMETRIC_MEAN = 0.35
PADDLE_TRAINING, PADDLE_INFERENCE = 0.5, 0.9
TORCH = {
    "tiny-fc": 1.0,
    "mlp": 1.0,
    "resnet18-training": 1.1,
    "transformer": 1.0,
    "mobilenet-training": 1.1,
    "attention-512": 1.0,
    "attention-2048": 1.0,
    "attention-8192": 1.0,
    "adamw-500": 1.0,
}
ONNXRUNTIME = {"resnet50-b1": 1.0, "resnet50-b8": 1.1, "mobilenet-b1": 1.3}

# the reasons why a measured ratio misses its goal
_CALL = "names are looked up and state is put back in each run, and XLA's own call takes longer too"
_AROUND = "the compiled step takes as long as plain JAX's; 31 variables are looked up and put back"
_STARTUP = "the process has also compiled the startup program, and holds graphopt's modules"
_KERNELS = "Paddle takes as long with the same oneDNN kernels"
_THIN = (
    "XLA's products of thin matrices, and shifts for filters of one channel; oneDNN's kernels "
    "lose NaN in relu6"
)
_TILES = "XLA writes the scores of each tile to memory between two products"
_PRODUCTS = "XLA's products"
_LOOPS = (
    "loops over images between the convolutions (batch norms, activations) read and write memory"
)
_STACKS = "most of it is XLA's compilation of slices of stacks: 0.6 of it without stack-state"
# (workload, opponent) -> reason
REASONS: Mapping[tuple[str, str], str] = {
    ("tiny-fc", BASELINE): _CALL,
    ("mlp", BASELINE): _AROUND,
    ("resnet18-training", MEMORY): _STARTUP,
    ("resnet18-training", "torch"): _LOOPS,
    ("resnet18-training", "paddle"): _LOOPS,
    ("resnet50-b1", "onnxruntime"): _KERNELS,
    ("resnet50-b1", "paddle"): _KERNELS,
    ("resnet50-b8", "onnxruntime"): _KERNELS,
    ("transformer", "paddle"): _PRODUCTS,
    ("transformer", "torch"): _PRODUCTS,
    ("mobilenet-b1", "paddle"): _THIN,
    ("mobilenet-b1", "onnxruntime"): _THIN,
    ("mobilenet-training", "torch"): _LOOPS,
    ("attention-512", "paddle"): _TILES,
    **{(f"attention-{length}", "torch"): _TILES for length in (512, 2048, 8192)},
    **{
        (name, MEMORY): _STARTUP
        for name in (
            "tiny-fc",
            "mlp",
            "transformer",
            "mlp-200",
            "attention-512",
            "recommender-sgd",
            "recommender-lazy-adam",
        )
    },
    ("adamw-500", MEMORY): _STACKS,
    ("geometric mean", BASELINE): "without the tiny step it is 0.33",
}


@dataclass(frozen=True)
class Check:
    """A goal and the measured ratio."""

    workload: str
    opponent: str
    wanted: float
    measured: float

    @property
    def met(self) -> bool:
        """True when the ratio, rounded to two decimals as printed, is at or below the goal."""
        return round(self.measured, 2) <= self.wanted

    @property
    def reason(self) -> str:
        """The reason for a missed goal, if it is known."""
        if self.met:
            return ""
        return REASONS.get((self.workload, self.opponent), "not yet explained")


def ratio(row: Row, other: Row, *, compiling: bool = False) -> float | None:
    """Compute the median ratio of one engine's step to another's in the same round.

    None when one of them did not run.
    """
    if "steps_s" not in row or "steps_s" not in other:
        return None
    if compiling:
        return row["compile_s"] / max(other["compile_s"], 1e-9)
    pairs = zip(row["steps_s"], other["steps_s"], strict=False)
    return statistics.median(one / two for one, two in pairs)


def to_baseline(found: Row, engine: str) -> float | None:
    """Compute an engine's ratio to plain JAX on a workload."""
    rows = found["engines"]
    row, other = rows.get(engine, {}), rows.get(BASELINE, {})
    return ratio(row, other, compiling=found["compile_only"])


def best(found: Row, prefix: str) -> float | None:
    """Compute the ratio to the best of the engines whose name starts with `prefix`."""
    rows, compiling = found["engines"], found["compile_only"]
    ratios = [
        ratio(rows[OURS], row, compiling=compiling)
        for name, row in rows.items()
        if name.startswith(prefix)
    ]
    return max((value for value in ratios if value is not None), default=None)


def checks(results: Mapping[str, Row]) -> Iterator[Check]:
    """Yield every goal that has a measurement."""
    to_jax: list[float] = []
    for name, found in results.items():
        for opponent, wanted in wanted_of(name, found).items():
            measured = best(found, opponent)
            if measured is not None:
                yield Check(name, opponent, wanted, measured)
                if opponent == BASELINE:
                    to_jax.append(measured)
        memory = memory_ratio(found)
        if memory is not None:
            yield Check(name, MEMORY, 1.0, memory)
    if to_jax:
        mean = math.exp(statistics.fmean(map(math.log, to_jax)))
        yield Check("geometric mean", BASELINE, GEOMETRIC_MEAN, mean)


def wanted_of(name: str, found: Row) -> dict[str, float]:
    """List the goals of one workload by opponent."""
    wanted = {BASELINE: 1.0}
    if not found["compile_only"]:
        wanted["paddle"] = PADDLE_TRAINING if found["training"] else PADDLE_INFERENCE
    for opponent, bounds in (("torch", TORCH), ("onnxruntime", ONNXRUNTIME)):
        if name in bounds:
            wanted[opponent] = bounds[name]
    return wanted


def memory_ratio(found: Row) -> float | None:
    """Compute the ratio of peak process memory to plain JAX's, for a training workload."""
    rows = found["engines"]
    if not found["training"] or not all("peak_bytes" in rows.get(n, {}) for n in (OURS, BASELINE)):
        return None
    return rows[OURS]["peak_bytes"] / rows[BASELINE]["peak_bytes"]


TITLES: Mapping[str, str] = {
    "paddle": "best of Paddle",
    "torch": "best of PyTorch",
    MEMORY: "peak memory, plain JAX",
}


def title(opponent: str) -> str:
    """Return the display name of an opponent."""
    if opponent in TITLES:
        return TITLES[opponent]
    return ENGINES[opponent].title
