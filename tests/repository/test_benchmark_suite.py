"""The benchmark suite: engines agree on toy sizes, and a recorded run gives a report."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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
    "gpu-resnet50-training-bf16",
    "gpu-transformer-bf16",
    "gpu-transformer-bf16-parallel",
    "gpu-bert-base-bf16",
    "gpu-gpt-bf16",
    "gpu-vit-b-bf16",
)


@pytest.fixture(scope="module", autouse=True)
def on_path() -> Iterator[None]:
    """Import the suite from its folder; it is not in the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield


def module(name: str) -> Any:
    return importlib.import_module(f"suite.{name}")


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_engines_agree(name: str, tmp_path: Path) -> None:
    """graphopt and plain JAX start from the same parameters and compute the same numbers."""
    workloads = module("workloads")
    workload = (workloads.BY_NAME | workloads.ON_GPU)[name]
    job = module("engines.job").Job(workload, "toy", tmp_path / "weights.npz", "", 1)
    ours, plain = (module(f"engines.{n}_engine").start(job) for n in ("graphopt", "jax"))
    for _ in range(3):
        expected = ours()
        scale = max(float(np.max(np.abs(expected))), 1e-30)
        assert np.max(np.abs(plain() - expected)) <= workload.tolerance * scale


def test_every_workload_is_listed() -> None:
    """Names and sizes match the table, and every ablation has its workload."""
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
    """A recorded run is shown as tables and a plot; missed goals are marked."""
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
    """A slow round slows both, and does not change the ratio."""
    goals = module("goals")
    ours, plain = {"steps_s": [1.0, 10.0, 1.0]}, {"steps_s": [2.0, 20.0, 2.0]}
    assert goals.ratio(ours, plain) == 0.5
    assert goals.ratio(ours, {"skipped": "absent"}) is None


def test_absent_engines_are_skipped(tmp_path: Path) -> None:
    """A peer without an environment is reported, and no process is started for it."""
    measure = module("measure")
    bench = measure.Bench(tmp_path, 1, tmp_path / "log")
    engines, workloads = module("engines"), module("workloads")
    with pytest.raises(module("process").WorkerError, match="make bench-peers"):
        bench.start(engines.ENGINES["torch"], workloads.BY_NAME["mlp"], {})


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def gpu_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make a run on a GPU of two minutes, in which each part takes its planned time."""
    gpu, clock = module("gpu"), Clock()
    bench = module("measure").Bench(tmp_path, 1, tmp_path / "log")
    found: dict[str, Any] = {"date": "2026-01-02T03:04", "card": "a card", "gpus": 1}
    made = gpu.GpuRun(bench, gpu.Clock(120.0, clock), "gpu", found, tell=lambda _: None)

    def run_part(name: str, later: list[str]) -> None:
        clock.time += gpu.SECONDS[name]
        assert name != "gpu-mlp", "its numbers differ"

    monkeypatch.setattr(made, "run_part", run_part)
    return made


def test_parts_begin_only_where_there_is_time(gpu_run: Any, tmp_path: Path) -> None:
    """A part without enough time is named on the page, and a shorter part runs after it."""
    seconds = module("gpu").SECONDS
    names = ["gpu-tiny-fc", "gpu-mlp", "gpu-transformer-bf16", "limits"]
    assert list(gpu_run.parts(names)) == names
    told = gpu_run.found["parts"]
    assert told["gpu-tiny-fc"] == {"seconds": seconds["gpu-tiny-fc"]}
    assert told["gpu-mlp"] == {"failed": "its numbers differ", "seconds": seconds["gpu-mlp"]}
    assert told["gpu-transformer-bf16"] == {"skipped": "65 of its 80 s were left"}
    assert told["limits"] == {"seconds": seconds["limits"]}
    page = "\n".join(module("gpu_page").page(gpu_run.found))
    assert "| `gpu-transformer-bf16` | 80 s | - | not run: 65 of its 80 s were left |" in page
    assert "| `gpu-mlp` | 30 s | 30 s | its numbers differ |" in page
    assert "| `again` | 70 s | - | not run: it was not asked for |" in page


def test_what_is_timed_may_be_in_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only comparisons with Paddle's numbers run in full precision."""
    gpu = module("gpu")
    monkeypatch.setenv("OTHER", "1")
    with gpu.children_of({**gpu.FULL_PRECISION, "OTHER": "2"}):
        assert gpu.os.environ["FLAGS_graphopt_tf32"] == "0" and gpu.os.environ["OTHER"] == "2"
    assert "FLAGS_graphopt_tf32" not in gpu.os.environ and gpu.os.environ["OTHER"] == "1"


def test_every_part_is_planned() -> None:
    """Workloads have a planned time, and the first parts fit into a run."""
    gpu, on_gpu = module("gpu"), module("workloads").ON_GPU
    assert {*on_gpu} == {name for name in gpu.SECONDS if name.startswith("gpu-")}
    several = on_gpu["gpu-transformer-bf16-parallel"]
    assert [*gpu.variants_of(several)] == ["graphopt", "graphopt-groups", "jax"]
    before = list(gpu.SECONDS)[: list(gpu.SECONDS).index("gpu-bert-base-bf16")]
    assert sum(gpu.SECONDS[name] for name in before) <= 12 * 60


def test_page_of_a_gpu() -> None:
    """Ratios compare with the best other engine; MFU uses the vendor's peak of a known card."""
    page = module("gpu_page")

    def engine(step: float, **more: Any) -> dict[str, Any]:
        return {"step_s": step, **more}

    row = {
        "title": "a model",
        "counted": "words",
        "count": 1000,
        "engines": {
            "graphopt": engine(0.1, device_bytes=200, predicted_bytes=190),
            "graphopt-groups": engine(0.11),
            "jax": engine(0.2, flops=49.47e12),
            "torch": engine(0.125),
            "torch-compile": {"skipped": "no environment"},
        },
    }
    found = {"date": "2026-01-02T03:04", "card": "NVIDIA H100 80GB", "workloads": {"w": row}}
    text = "\n".join(page.page(found))
    assert "| a model | 100 | 110 | 200 | 125 | no environment | 0.80 | 1.10 |" in text
    assert "| a model | 10,000 words | 495 | 50.0% |" in text
    assert "| 0 | 0.95 |" in text
    assert page.of_best({"engines": {"graphopt": engine(1.0)}}) is None


SCHEDULED = """HloModule step, is_scheduled=true

%inner (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  ROOT %c = f32[2]{0} convert(%p)
}

ENTRY %main (a: f32[2,3]) -> f32[2,3] {
  %a = f32[2,3]{1,0} parameter(0)
  %all-reduce-start = f32[2,3]{1,0} all-reduce-start(%a), to_apply=%sum
  %gemm_fusion_dot = f32[2,3]{1,0} fusion(%a), kind=kCustom, calls=%inner
  %all-reduce-done = f32[2,3]{1,0} all-reduce-done(%all-reduce-start)
  %wrapped_transpose.1 = f32[3,2]{1,0} fusion(%a), kind=kLoop, calls=%inner
  %all-reduce-start.1 = f32[3,2]{1,0} all-reduce-start(%wrapped_transpose.1), to_apply=%sum
  %loop_convert_fusion = f32[2]{0} fusion(%a), kind=kLoop, calls=%inner
  %all-reduce-done.1 = f32[3,2]{1,0} all-reduce-done(%all-reduce-start.1)
  %conv = (f32[2,3]{1,0}, u8[0]{0}) custom-call(%a), custom_call_target="__cudnn$convBiasActivationForward"
  ROOT %end = f32[2,3]{1,0} get-tuple-element(%conv), index=0
}
"""  # noqa: E501


def test_counts_of_compiled_steps() -> None:
    """Kernels and epilogues of the entry are counted, and sums that run beside a product."""
    for_gpu, page = module("for_gpu"), module("gpu_page")
    memory = SimpleNamespace(
        argument_size_in_bytes=10,
        alias_size_in_bytes=4,
        output_size_in_bytes=5,
        temp_size_in_bytes=10**6,
    )
    made = SimpleNamespace(as_text=lambda: SCHEDULED, memory_analysis=lambda: memory)
    counts = for_gpu.counted(made)
    assert counts == {
        "kernels": 8,
        "convolutions": 1,
        "with epilogue": 1,
        "transposes": 1,
        "converts": 1,
        "bytes": 10**6 + 11,
    }
    overlap = for_gpu.overlap(SCHEDULED)
    assert overlap == {"sums": 2, "sum bytes": 48, "overlapped bytes": 24}
    row = {"title": "a model", "layers": 2, "graphopt": counts, "jax": {**counts, "kernels": 9}}
    assert "| a model, 2 layers | 8 / 9 | 1 / 1 |" in "\n".join(page.count_table({"m": row}))
    row = {"title": "a model", "layers": 2, "as it is": overlap}
    assert "| a model | as it is | 2 | 0 | 0 | 50% |" in "\n".join(page.overlap_table({"m": row}))


def test_flops_are_those_of_the_products(tmp_path: Path) -> None:
    """A layer has two operations for each weight and row, three times in training."""
    workload = module("workloads").BY_NAME["mlp"]
    job = module("engines.job").Job(workload, "toy", tmp_path / "weights.npz", "", 1)
    module("engines.graphopt_engine").start(job)
    rows, weights = job.sizes.batch, 6 * 8 + 8 * 8 + 8 * 3
    assert module("engines.jax_engine").model_flops(job) == 3 * 2 * rows * weights


def test_a_worker_that_does_not_answer(tmp_path: Path) -> None:
    """The worker is ended, and the message names its time limit."""
    process, engines = module("process"), module("engines")
    worker = process.Process(
        engines.ENGINES["jax"],
        ["mlp", "toy"],
        python="/bin/cat",  # it ends at once, for it cannot read such files
        cores=1,
        environment={},
        log=tmp_path / "log",
        limit=lambda: 5.0,
    )
    with pytest.raises(process.WorkerError, match="the worker ended with"):
        worker.ask("prepare")
    worker.end()
    worker._lines, worker._limit, worker._told = module("process").Queue(), lambda: 0.01, 1
    with pytest.raises(process.WorkerError, match="no answer within 0 s"):
        worker.answer()


@pytest.mark.slow
def test_trial_on_a_cpu(tmp_path: Path) -> None:
    """The whole script runs on a CPU with toy sizes: a row, its page, and parts not requested."""
    main = module("__main__").main
    parts = "limits,gpu-tiny-fc,gpu-gpt-bf16"
    main(["--gpu", "--device", "cpu", "--size", "toy", "--out", str(tmp_path), "--parts", parts])
    page = (tmp_path / "gpu.md").read_text()
    assert "A trial with toy sizes" in page
    assert "| tiny fc step, SGD, float32 |" in page
    assert "| GPT of 1.3 billion parameters" in page
    assert "| `correct` | 110 s | - | not run: it was not asked for |" in page
