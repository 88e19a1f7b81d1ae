"""(a) One linear layer with a mean after it: the overhead of a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.workload import Arrays, Optimizer, Sizes, Workload


def feed(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw ten numbers."""
    return {"x": random.random((sizes.batch, 1), "float32")}


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Apply one linear layer."""
    return nn.linear(feed["x"], 10)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    return nn.linear(1, 10)


WORKLOADS = (
    Workload(
        "tiny-fc",
        "tiny fc step, SGD",
        {"full": Sizes(batch=10), "toy": Sizes(batch=10)},
        feed,
        model,
        torch,
        head="mean",
        optimizer=Optimizer("sgd", 0.01),
    ),
)
