"""(g) AdamW on five hundred small parameters: the cost of an update for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.workload import Arrays, Optimizer, Sizes, Workload


def feed(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Return no feed."""
    return {}


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Sum the means of squares."""
    shape = [sizes.width, sizes.width]
    return nn.mean_squares([nn.parameter(shape, 1.0) for _ in range(sizes.count)])


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    return nn.MeanSquares(sizes.count, (sizes.width, sizes.width))


WORKLOADS = (
    Workload(
        "adamw-500",
        "AdamW on 500 parameters of 64 x 64",
        {"full": Sizes(count=500, width=64), "toy": Sizes(count=5, width=4)},
        feed,
        model,
        torch,
        head="sum",
        optimizer=Optimizer("adamw", 0.01),
        flags=("fuse_adamw",),
    ),
)
