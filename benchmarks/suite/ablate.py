"""What each pass is worth: a workload with it against the same without it.

A line of `PASSES` is a pass and the workloads that it is for. `FLAGS_graphopt_without` leaves the
pass out; all others stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphopt.passes.pipeline import ROWS, Phase
from suite import goals
from suite.engines import ENGINES, OURS
from suite.measure import Bench, compare
from suite.workloads import BY_NAME

ALL = "all"
PASSES: Mapping[str, tuple[str, ...]] = {
    "fuse-long-attention": ("attention-512", "attention-2048", "transformer"),
    "fused-feedforward": ("transformer",),
    "fuse-gemm-epilogue": ("mlp",),
    "fuse-bn-act": ("resnet18-training",),
    "fuse-adamw": ("adamw-500", "transformer"),
    "fold-batch-norm": ("resnet50-b1",),
    "assign-layout": ("resnet50-b1", "resnet18-training"),
    "choose-convolution": ("resnet50-b1", "mobilenet-b1", "mobilenet-training"),
    "prepare-weights": ("resnet50-b1", "mobilenet-b1"),
    "roll-layers": ("mlp-200", "transformer-48"),
    "update-rows": ("recommender-sgd", "recommender-lazy-adam"),
}


def ablations(bench: Bench, wanted: str) -> Iterator[dict[str, Any]]:
    """A row for each pass that is wanted (names with commas, or all) and each of its workloads."""
    known = {row.pass_name for row in ROWS}
    names = [*PASSES, *unlisted()] if wanted == ALL else wanted.split(",")
    for name in names:
        if name not in known:
            yield {"pass": name, "note": "not in this version"}
        elif name not in PASSES:
            yield {"pass": name, "note": "no workload is named for it in suite/ablate.py"}
        else:
            yield from (ablation(bench, name, workload) for workload in PASSES[name])


def unlisted() -> list[str]:
    """The passes for the target that no line names."""
    return [r.pass_name for r in ROWS if r.phase is Phase.TARGET and r.pass_name not in PASSES]


def ablation(bench: Bench, name: str, workload: str) -> dict[str, Any]:
    """On against off: step, time to compile and peak memory."""
    ours = ENGINES[OURS]
    without = {"FLAGS_graphopt_without": name}
    variants = {"with": (ours, {}), "without": (ours, without)}
    found = compare(bench, BY_NAME[workload], variants, must_agree="without")["engines"]
    on, off = found["with"], found["without"]
    if "step_s" not in on or "step_s" not in off:
        return {"pass": name, "workload": workload, "note": on.get("skipped", off.get("skipped"))}
    return {
        "pass": name,
        "workload": workload,
        "step": goals.ratio(on, off),
        "compile": goals.ratio(on, off, compiling=True),
        "memory": on["peak_bytes"] / off["peak_bytes"],
    }
