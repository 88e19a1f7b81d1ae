"""The run on a GPU: correctness, then speed, in twelve minutes, on a machine without a network.

    make test-gpu GPU_PYTHON=python3                         the first part alone
    make bench-gpu GPU_PYTHON=python3                        all, into docs/benchmarks/gpu.{json,md}
    make bench-gpu GPU_PYTHON=python3 BENCH="--missing"      the parts that an earlier run skipped
    make bench-gpu GPU_PYTHON=python3 BENCH="--minutes 9.5 --out $OUT"     where time is shorter
    make bench-gpu BENCH="--device cpu --size toy --out out/bench-gpu"           a trial on a CPU

Without make, at the root of the repository:

    PYTHONPATH=$PWD/benchmarks:$PWD:$PWD/out/gpu-packages python3 -m suite --gpu --out $OUT

The Python of GPU_PYTHON has JAX with CUDA and, for the rows of PyTorch, torch; the run installs
nothing into it. `make gpu-packages`, where there is a network, installs graphopt's other
dependencies into out/gpu-packages (33 MB), to be copied to the machine; it is not under version
control. Rows are printed as they are measured, and each part writes the JSON and the page again: an
interrupted run leaves its results. A part begins only if its time in `SECONDS` is left; the page
names the parts that did not begin. A worker that does not answer in the remaining time is ended.

The planned seconds of each part on an H100 or H200 (`SECONDS`, below; the page has the measured
seconds beside them):

    correct 110: recorded cases in 44, saved models in 66        limits 15: large products
    tiny step 25, MLP 30, fed by NumPy 25                        attention of 2048 and 8192: 40 each
    ResNet-50 inference 65 in bfloat16, 65 in float32            training 85; ResNet-18 training 60
    Transformer 80 in bfloat16, 80 in float32                    GPT of 1.3 billion parameters 130
    BERT-base 80, ViT-B 80, recommender 30                       again 70: first losses with caches
    the Transformer on all GPUs, where there are several: 80

That is more than fits into twelve minutes: the most important parts come first, and `--missing`
runs the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suite import gpu_page, machine
from suite.engines import BASELINE, ENGINES, OURS
from suite.engines.job import FLAGS
from suite.measure import Bench, Effort, Variants, compare
from suite.process import WorkerError
from suite.workload import Workload
from suite.workloads import ON_GPU

ROOT = Path(__file__).parents[2]
CORRECT, LIMITS, AGAIN = "correct", "limits", "again"
SECONDS: Mapping[str, float] = {
    CORRECT: 110,
    LIMITS: 15,
    "gpu-tiny-fc": 25,
    "gpu-mlp": 30,
    "gpu-attention-2048-bf16": 40,
    "gpu-attention-8192-bf16": 40,
    "gpu-transformer-bf16": 80,
    "gpu-resnet50-bf16": 65,
    "gpu-resnet50-training-bf16": 85,
    "gpu-gpt-bf16": 130,
    "gpu-bert-base-bf16": 80,
    "gpu-vit-b-bf16": 80,
    AGAIN: 70,
    "gpu-resnet50": 65,
    "gpu-resnet18-training-bf16": 60,
    "gpu-recommender-lazy-adam": 30,
    "gpu-mlp-fed": 25,
    "gpu-transformer": 80,
    "gpu-transformer-bf16-parallel": 80,
}
"""The parts in order, with the seconds of each."""
GROUPS = "build_cinn_pass,enable_auto_fusion"
VARIANTS: Variants = {
    OURS: (ENGINES[OURS], {}),
    "graphopt-groups": (ENGINES[OURS], {FLAGS: GROUPS}),
    BASELINE: (ENGINES[BASELINE], {}),
    "torch": (ENGINES["torch"], {}),
    "torch-compile": (ENGINES["torch-compile"], {}),
}
EFFORT = Effort(rounds=7, turn=0.25, most=12.0)
RESERVE = 5.0
"""The seconds reserved for writing the page when workers must answer."""
FULL_PRECISION = {"FLAGS_graphopt_tf32": "0"}
SIDE, PRODUCTS = 8192, 20


@dataclass
class Clock:
    """The remaining seconds of a run."""

    seconds: float
    now: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.now()

    def left(self) -> float:
        """Return the seconds until the run must end."""
        return self.began + self.seconds - self.now()


@dataclass
class GpuRun:
    """One run: its parts, its results, and its clock."""

    bench: Bench
    clock: Clock
    device: str
    found: dict[str, Any]
    tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)

    def parts(self, names: list[str]) -> Iterator[str]:
        """Run these parts while time remains; yield the name of each when it has ended."""
        told: dict[str, Any] = self.found.setdefault("parts", {})
        told |= {name: {"skipped": "the run was cut off before it"} for name in names}
        for at, name in enumerate(names):
            left = self.clock.left()
            if SECONDS[name] * self.scale > left:
                told[name] = {"skipped": f"{left:.0f} of its {SECONDS[name]:.0f} s were left"}
                self.tell(f"{name}: no time, {told[name]['skipped']}")
                yield name
                continue
            self.tell(f"{name} … ({left:.0f} s left)")
            begun = self.clock.now()
            try:
                self.run_part(name, names[at + 1 :])
                told[name] = {}
            except (AssertionError, WorkerError, OSError, ValueError) as error:
                told[name] = {"failed": str(error).splitlines()[0][:300]}
                self.tell(f"{name}: failed: {error}")
            told[name]["seconds"] = round(self.clock.now() - begun, 1)
            yield name

    @property
    def scale(self) -> float:
        """The factor of planned times: toy sizes need no time."""
        return 1.0 if self.bench.size == "full" else 0.0

    def run_part(self, name: str, later: list[str]) -> None:
        """Run one part; workers of the `later` parts may start."""
        if name == CORRECT:
            seconds = min(SECONDS[CORRECT], self.clock.left())
            self.found[CORRECT] = correct(self.device, seconds, self.tell)
            self.tell(gpu_page.correct_line(self.found[CORRECT]))
            failed, models = self.found[CORRECT]["failed"], self.found[CORRECT]
            wrong = len(failed) + models["models_run"] - models["models"]
            assert not wrong, f"{wrong} of the cases and runs of models are not right"
        elif name == LIMITS:
            self.found[LIMITS] = json.loads(in_child("suite.gpu"))
        elif name == AGAIN:
            self.found[AGAIN] = again(self.bench, ON_GPU["gpu-transformer-bf16"])
        else:
            self.measure(ON_GPU[name], next((ON_GPU[n] for n in later if n in ON_GPU), None))

    def measure(self, workload: Workload, later: Workload | None) -> None:
        """Measure a workload; the workers of the next one start meanwhile."""
        bench = self.bench
        if workload.parallel and self.found["gpus"] < 2:
            raise ValueError(f"it needs several GPUs, and there are {self.found['gpus']}")
        variants = variants_of(workload)
        bench.begin(workload, {} if workload.alone else variants)
        if later is not None and not (workload.alone or later.alone or later.parallel):
            bench.begin(later, variants_of(later))
        row = compare(bench, workload, variants, must_agree=BASELINE)
        row |= {"counted": workload.counted, "count": counted(workload, bench.size)}
        row["dtype"] = workload.low or "float32"
        self.found.setdefault("workloads", {})[workload.name] = row
        self.tell(gpu_page.row_line(row, self.found))


def variants_of(workload: Workload) -> Variants:
    """Select the engines that have a workload; PyTorch runs on one device only."""
    return {
        name: (engine, more)
        for name, (engine, more) in VARIANTS.items()
        if engine.can_run(workload) and not (workload.parallel and engine.environment)
    }


def counted(workload: Workload, size: str) -> int:
    """Count the images or words of a step; 0 for a workload without a unit."""
    return workload.count(size) if workload.counted else 0


def again(bench: Bench, workload: Workload) -> dict[str, Any]:
    """Measure the seconds to the first loss of a process, and of the next one after it."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            "JAX_ENABLE_COMPILATION_CACHE": "true",
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
            "FLAGS_graphopt_cache_dir": f"{folder}/graphopt",
            "FLAGS_graphopt_tier": "auto",
        }
        for name in (OURS, BASELINE):
            found[name] = [first_loss(bench, name, workload, kept, folder) for _ in range(2)]
    return found


def first_loss(
    bench: Bench, name: str, workload: Workload, more: Mapping[str, str], folder: str
) -> float:
    """Measure the seconds from the start of a process to its first loss."""
    process = bench.start(ENGINES[name], workload, more)
    try:
        told = process.ask("prepare")
        told |= process.ask("start", weights=f"{folder}/weights.npz")
    finally:
        process.end()
    return gpu_page.first_loss_s(told)


# -- correctness -----------------------------------------------------------------------------------


def correct(device: str, seconds: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """Check recorded cases, and saved models plain and with every fusion, by Paddle's numbers."""
    from graphopt.conformance.cases import Corpus
    from graphopt.conformance.run import run as run_cases
    from graphopt.conformance.table import read_reasons

    folder = ROOT / "tests" / "conformance" / "cases"
    known = read_reasons(folder.parent / "reasons.tsv")
    # whole programs name their own place; some cases differ for known reasons
    chosen = [
        number
        for number, case in enumerate(Corpus(folder).cases)
        if case["kind"] not in ("program", "lr")
        and not any(pattern.fullmatch(case["id"]) for pattern, _ in known)
    ]
    jobs = max(2, min(8, machine.cores() // 2))  # this process holds no device
    found: dict[str, Any] = {"cases": 0, "failed": []}
    with children_of(FULL_PRECISION):
        for outcome in run_cases(folder, chosen, jobs, device=device, seconds=0.4 * seconds):
            found["cases"] += 1
            if outcome.complaints:
                found["failed"].append(f"{outcome.id}: {outcome.complaints[0][:200]}")
                tell(f"  {found['failed'][-1]}")
    return found | {"all": len(chosen)} | saved_models(device, 0.6 * seconds)


@contextmanager
def children_of(variables: Mapping[str, str]) -> Generator[None]:
    """Set variables for processes started in the block; later ones do not have them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def saved_models(device: str, seconds: float) -> dict[str, Any]:
    """Run the tests of saved models on the device while time remains; count passes and failures.

    Each runs a model plain or with every fusion.
    """
    platform = {"gpu": "cuda,cpu"}.get(device, device)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
    with tempfile.TemporaryFile("w+") as said:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*command, "tests/runtime/test_models.py"],
                cwd=ROOT,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                env={**os.environ, "GRAPHOPT_TEST_PLATFORM": platform},
            )
        said.seek(0)
        # a line of the tests' progress: a sign for each test, then the percentage
        signs = "".join(line.partition(" ")[0] for line in said if re.match(r"[.FEsx]+( |$)", line))
    passed, failed = signs.count("."), signs.count("F") + signs.count("E")
    return {"models": passed, "models_run": passed + failed}


def child_environment(device: str) -> dict[str, str]:
    """Return the environment of all processes of a run.

    Several share a device, so none takes all memory.
    """
    return {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        # trials of kernels must not wait for XLA's rival code
        **(
            {"JAX_PLATFORMS": "cpu", "FLAGS_graphopt_kernels": "off"}
            if device == "cpu"
            else {"JAX_PLATFORMS": "cuda,cpu"}
        ),
    }


# -- the machine -----------------------------------------------------------------------------------


def in_child(module: str, *arguments: str) -> str:
    """Run a module in another process, as this one holds no GPU; return its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        check=True,
        text=True,
        cwd=ROOT / "benchmarks",  # where it is found, however this was started
    )
    return done.stdout.strip().splitlines()[-1]


def describe() -> dict[str, Any]:
    """Describe the devices, as JAX names them, and the driver."""
    import jax

    devices, driver = jax.devices(), ""
    with suppress(OSError):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True).stdout.partition("\n")[0]
    gpus = sum(each.platform == "gpu" for each in devices)
    return {"card": devices[0].device_kind, "gpus": gpus, "driver": driver}


def products() -> dict[str, float]:
    """Measure TFLOP/s of large products, in float32 (TF32 on GPUs) and bfloat16."""
    import jax
    from jax import numpy as jnp

    side = SIDE if jax.default_backend() == "gpu" else 256
    rates: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        run = jax.jit(lambda a, b: a @ b)
        a = b = jnp.ones((side, side), dtype)
        jax.block_until_ready(run(a, b))
        begun = time.perf_counter()
        for _ in range(PRODUCTS):
            a = run(a, b)
        jax.block_until_ready(a)
        rates[dtype] = PRODUCTS * 2 * side**3 / (time.perf_counter() - begun) / 1e12
    return rates


# -- the run ---------------------------------------------------------------------------------------


def run(given: argparse.Namespace) -> None:
    """Run the requested parts; results of earlier runs stay in the folder."""
    wanted = given.parts.split(",") if given.parts else list(SECONDS)
    if unknown := sorted({*wanted} - {*SECONDS}):
        raise SystemExit(f"--parts: there is no {unknown[0]!r}; known are {', '.join(SECONDS)}")
    clock = Clock(60 * given.minutes)
    os.environ.update(child_environment(given.device))
    try:
        about = json.loads(in_child("suite.gpu", "--describe"))
    except (subprocess.CalledProcessError, IndexError):
        about = {"gpus": 0}
    if given.device == "gpu" and not about["gpus"]:
        print("bench-gpu: JAX sees no GPU here, so nothing was run", file=sys.stderr)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "gpu.json"
    found = json.loads(path.read_text()) if path.exists() and given.missing else {}
    done = {
        name
        for name, part in found.get("parts", {}).items()
        if "seconds" in part and "failed" not in part
    }
    found |= machine.describe(given.peers) | about | {"size": given.size, "minutes": given.minutes}
    bench = Bench(given.peers, machine.cores(), given.out / "workers.log", given.size, EFFORT)
    bench = replace(bench, limit=lambda: max(1.0, clock.left() - RESERVE))
    if given.quick or given.size == "toy":
        bench = replace(bench, effort=Effort(rounds=1, turn=0.01))
    try:
        gpu_run = GpuRun(bench, clock, given.device, found)
        for _ in gpu_run.parts([name for name in wanted if name not in done]):
            path.write_text(json.dumps(found, indent=1) + "\n")
            gpu_page.write(given.out)
    finally:
        bench.end()
    print(f"wrote {given.out}/gpu.md", file=sys.stderr)


if __name__ == "__main__":
    print(json.dumps(describe() if "--describe" in sys.argv else products()))
