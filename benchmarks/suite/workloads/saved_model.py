"""(i) Inference with models that Paddle saved: from the tests, or from folders that are named."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from suite.workload import Arrays, Sizes, Workload

MODELS = Path(__file__).parents[3] / "tests" / "data" / "models"
# folders with model.pdmodel, its parameters and inputs.npz, separated as in PATH
FOLDERS = os.environ.get("GRAPHOPT_BENCH_MODELS", "")


def feed(random: np.random.Generator, sizes: Sizes, *, folder: Path) -> Arrays:
    """Load the inputs that were saved with the model."""
    with np.load(folder / "inputs.npz") as arrays:
        return dict(arrays)


def saved(folder: Path) -> Workload:
    """Build the workload of one folder."""
    return Workload(
        f"saved-{folder.name.removeprefix('infer_').replace('_', '-')}",
        f"saved model {folder.name}, inference",
        {"full": Sizes(), "toy": Sizes()},
        partial(feed, folder=folder),
        model_dir=str(folder),
    )


WORKLOADS = tuple(
    saved(folder)
    for folder in (
        MODELS / "infer_bert_mini",
        MODELS / "infer_resnet18",
        *(Path(name) for name in FOLDERS.split(os.pathsep) if name),
    )
)
