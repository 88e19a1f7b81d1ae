"""The benchmark suite: engines compute the same on toy sizes, and a recorded run gives a report."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "benchmark_run.json"
QUICK = ("tiny-fc", "mlp", "adamw-500", "recommender-lazy-adam", "gpu-attention-2048-bf16")
SLOW = (
    "attention-512",
    "transformer",
    "mlp-200",
    "recommender-sgd",
    "resnet18-training",
    "resnet50-b1",
    "mobilenet-training",
    "gpu-resnet18-training-bf16",
    "gpu-transformer-bf16",
    "gpu-transformer-parallel",
)


@pytest.fixture(scope="module", autouse=True)
def on_path() -> Iterator[None]:
    """The suite is no part of the package: it is imported from its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield


def module(name: str) -> Any:
    return importlib.import_module(f"suite.{name}")


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_engines_agree(name: str, tmp_path: Path) -> None:
    """graphopt and plain JAX start from the same parameters and compute the same."""
    workloads = module("workloads")
    workload = (workloads.BY_NAME | workloads.ON_GPU)[name]
    job = module("engines.job").Job(workload, "toy", tmp_path / "weights.npz", "", 1)
    ours, plain = (module(f"engines.{n}_engine").start(job) for n in ("graphopt", "jax"))
    for _ in range(3):
        expected = ours()
        scale = max(float(np.max(np.abs(expected))), 1e-30)
        assert np.max(np.abs(plain() - expected)) <= workload.tolerance * scale


def test_every_workload_is_listed() -> None:
    """Names are those of the table, the sizes are there, and every ablation has its workloads."""
    workloads = module("workloads")
    for name, workload in workloads.EVERY.items():
        assert workload.name == name
        assert set(workload.sizes) == {"full", "toy"}
    ablate = module("ablate")
    for found in ablate.wanted_ones(ablate.ALL):
        if isinstance(found, ablate.Ablation):
            assert found.workload in workloads.EVERY
        else:
            assert found["note"] == ablate.ELSEWHERE[found["pass"]]
    assert next(ablate.wanted_ones("fuse-nothing"))["note"] == "not in this version"
    reasons = module("goals").REASONS
    assert {name for name, _ in reasons} <= {*workloads.BY_NAME, "geometric mean"}


@pytest.mark.exhaustive
def test_report(tmp_path: Path) -> None:
    """A recorded run as tables and a plot; missed goals are marked."""
    (tmp_path / "bench.json").write_text(RECORDED.read_text())
    module("report").write(tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| mlp | MLP 784-512-512-10, batch 128, Adam | 0.80 | 4.00 |" in page
    assert "| mlp | plain JAX | 1.00 | 0.80 | met |  |" in page
    assert "| mlp | best of Paddle | 0.50 | 0.20 | met |  |" in page
    assert "| tiny-fc | plain JAX | 1.00 | 2.00 | **missed** | names are looked up" in page
    assert "no environment" in page
    assert "| fuse-gemm-epilogue | mlp | 0.90 |" in page
    assert (tmp_path / "ratios.svg").read_text().startswith("<?xml")


def test_ratio_is_of_the_same_round() -> None:
    """A slow round slows both, and leaves the ratio as it is."""
    goals = module("goals")
    ours, plain = {"steps_s": [1.0, 10.0, 1.0]}, {"steps_s": [2.0, 20.0, 2.0]}
    assert goals.ratio(ours, plain) == 0.5
    assert goals.ratio(ours, {"skipped": "absent"}) is None


def test_absent_engines_are_skipped(tmp_path: Path) -> None:
    """A peer without an environment is told of, and nothing is started for it."""
    measure = module("measure")
    bench = measure.Bench(tmp_path, 1, tmp_path / "log")
    engines, workloads = module("engines"), module("workloads")
    with pytest.raises(module("process").WorkerError, match="make bench-peers"):
        bench.start(engines.ENGINES["torch"], workloads.BY_NAME["mlp"], tmp_path / "w", {})
