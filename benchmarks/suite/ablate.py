"""The gain of each rewrite: a workload with it against the same without it.

A line of `PASSES` is a pass and the workloads that measure it. `FLAGS_graphopt_without` leaves the
pass out; all others stay. A line of `SETTINGS` is a rewrite that a flag enables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from graphopt.passes.table.order import ROWS, Phase
from suite import goals
from suite.engines import ENGINES, OURS
from suite.engines.job import FLAGS, STEPS
from suite.measure import Bench, Environment, compare
from suite.workloads import EVERY

ALL = "all"
PASSES: Mapping[str, tuple[str, ...]] = {
    "fuse-long-attention": ("attention-512", "attention-2048"),
    "fuse-dot-product-attention": ("transformer",),
    "fused-feedforward": ("transformer",),
    "fuse-gemm-epilogue": ("mlp",),
    "fuse-bn-act": ("resnet18-training",),
    "fuse-adamw": ("adamw-500", "transformer"),
    "fold-batch-norm": ("resnet50-b1",),
    "assign-layout": ("resnet50-b1", "resnet18-training"),
    "choose-convolution": (
        "resnet50-b1",
        "resnet18-training",
        "mobilenet-b1",
        "mobilenet-training",
    ),
    "choose-pooling": ("resnet18-training",),
    "store-filters": ("resnet18-training", "mobilenet-training"),
    "prepare-weights": ("resnet50-b1", "mobilenet-b1"),
    "reassociate-matmul": ("matrix-chain",),
    "roll-layers": ("mlp-200", "transformer-48"),
    "stack-state": ("adamw-500", "mlp-200"),
    "update-rows": ("recommender-sgd", "recommender-lazy-adam"),
}

# passes without effect on CPUs, or by default
ELSEWHERE: Mapping[str, str] = {
    "choose-attention": "it names the kernels of GPUs and TPUs; on CPUs it changes nothing",
    "choose-kernel": "its kernels compete with XLA's in each program that runs for long; "
    "see bench_kernels.py",
    "fuse-conv-epilogue": "as choose-kernel, whose ops it makes",
    "pack-filters": "as choose-kernel, whose filters it lays out",
    "choose-group-kernel": "it makes kernels for GPUs and TPUs, of the groups of build_cinn_pass",
    "fuse-cudnn-attention": "for GPUs; `make bench-gpu` has attention there",
    "fuse-pallas-attention": "for TPUs, which the suite does not measure",
}


class Setting(NamedTuple):
    """The environment of a worker with the rewrite enabled, and the workloads that measure it."""

    on: Environment
    workloads: tuple[str, ...]


SETTINGS: Mapping[str, Setting] = {
    "memory_optimize": Setting({FLAGS: "memory_optimize"}, ("mlp-200", "transformer-48")),
    "num_iteration_per_run=32": Setting({STEPS: "32"}, ("tiny-fc",)),
}


class Ablation(NamedTuple):
    """One workload, with the environments of its two variants; `exact` when they must agree."""

    name: str
    workload: str
    on: Environment
    off: Environment
    exact: bool


def wanted_ones(wanted: str) -> Iterator[Ablation | dict[str, Any]]:
    """Yield the ablations of these names (with commas, or all), and notes for other names."""
    known = {row.pass_name for row in ROWS} | set(SETTINGS)
    for name in [*PASSES, *SETTINGS, *unlisted()] if wanted == ALL else wanted.split(","):
        for workload in PASSES.get(name, ()):
            yield Ablation(name, workload, {}, {"FLAGS_graphopt_without": name}, exact=True)
        if name in SETTINGS:
            on, workloads = SETTINGS[name]
            for workload in workloads:
                yield Ablation(name, workload, on, {}, exact=False)
        elif name not in PASSES:
            told = ELSEWHERE.get(name, "no workload is named for it in suite/ablate.py")
            yield {"pass": name, "note": told if name in known else "not in this version"}


def ablations(bench: Bench, wanted: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each requested ablation."""
    for found in wanted_ones(wanted):
        yield measured(bench, found) if isinstance(found, Ablation) else found


def unlisted() -> list[str]:
    """List the target passes that have no line in `PASSES`."""
    return [r.pass_name for r in ROWS if r.phase is Phase.TARGET and r.pass_name not in PASSES]


def measured(bench: Bench, one: Ablation) -> dict[str, Any]:
    """Measure step, compile time and peak memory with the rewrite against without it."""
    ours = ENGINES[OURS]
    variants = {"with": (ours, one.on), "without": (ours, one.off)}
    must_agree = "without" if one.exact else ""
    found = compare(bench, EVERY[one.workload], variants, must_agree=must_agree)["engines"]
    on, off = found["with"], found["without"]
    row = {"pass": one.name, "workload": one.workload}
    if "step_s" not in on or "step_s" not in off:
        return row | {"note": on.get("skipped", off.get("skipped"))}
    return row | {
        "step": goals.ratio(on, off),
        "compile": goals.ratio(on, off, compiling=True),
        "memory": on["peak_bytes"] / off["peak_bytes"],
    }
