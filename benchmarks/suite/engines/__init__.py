"""The engines that run workloads, each with its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from suite.workload import Workload


@dataclass(frozen=True)
class Engine:
    """An engine for workloads: a module here, its option, and its environment.

    `runs` is "training", "inference" or "" for both. `threads` are environment variables that take
    the number of cores.
    """

    name: str
    module: str
    title: str
    environment: str = ""
    option: str = ""
    runs: str = ""
    threads: tuple[str, ...] = ()

    def can_run(self, workload: Workload) -> bool:
        """True when the workload has this engine's spelling and its direction."""
        if self.runs and (self.runs == "training") != workload.training:
            return False
        if workload.model_dir:
            return self.module in ("graphopt_engine", "paddle_engine")
        return workload.torch is not None or self.environment != "torch"


ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("graphopt", "graphopt_engine", "graphopt"),
        Engine("jax", "jax_engine", "plain JAX"),
        Engine("paddle", "paddle_engine", "Paddle Executor", "paddle"),
        Engine(
            "paddle-threads",
            "paddle_engine",
            "Paddle Executor, all cores",
            "paddle",
            threads=("OMP_NUM_THREADS",),
        ),
        Engine(
            "paddle-predictor",
            "paddle_engine",
            "Paddle predictor",
            "paddle",
            "predictor",
            "inference",
            ("OMP_NUM_THREADS",),
        ),
        Engine(
            "paddle-onednn",
            "paddle_engine",
            "Paddle predictor, oneDNN",
            "paddle",
            "onednn",
            "inference",
            ("OMP_NUM_THREADS",),
        ),
        Engine("torch", "torch_engine", "PyTorch", "torch"),
        Engine("torch-compile", "torch_engine", "torch.compile", "torch", "compile"),
        Engine("onnxruntime", "onnx_engine", "ONNX Runtime", "torch", runs="inference"),
    )
}
OURS, BASELINE = "graphopt", "jax"
