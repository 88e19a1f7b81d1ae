"""(f) The core of attention, forward and backward, at three lengths.

Query, key and value are the parameters, so a step computes their gradients and uses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.workload import Arrays, Optimizer, Sizes, Workload


def feed(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Return no feed."""
    return {}


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute softmax(q k' / sqrt(width)) v."""
    shape = [sizes.batch, sizes.heads, sizes.length, sizes.width]
    return nn.attention(*[nn.parameter(shape, 1.0) for _ in range(3)])


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    return nn.Attention((sizes.batch, sizes.heads, sizes.length, sizes.width))


WORKLOADS = tuple(
    Workload(
        f"attention-{length}",
        f"attention 1 x {heads} x {length} x 64, forward and backward",
        {
            "full": Sizes(batch=1, heads=heads, length=length, width=64),
            "toy": Sizes(batch=1, heads=2, length=16, width=4),
        },
        feed,
        model,
        torch,
        head="mean_square",
        optimizer=Optimizer("sgd", 100.0),
    )
    # few heads for the longest: without fusion, each needs a gigabyte
    for length, heads in ((512, 8), (2048, 8), (8192, 2))
)
