"""(f) The core of attention, forward and backward, at three lengths.

Query, key and value are the parameters, so a step computes their gradients and uses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.workload import Arrays, Optimizer, Sizes, Workload


def feed(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Nothing."""
    return {}


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """softmax(q k' / sqrt(width)) v"""
    shape = [1, sizes.heads, sizes.length, sizes.width]
    return nn.attention(*[nn.parameter(shape, 1.0) for _ in range(3)])


def torch(nn: Any, sizes: Sizes) -> Any:
    """The same in PyTorch."""
    return nn.Attention((1, sizes.heads, sizes.length, sizes.width))


WORKLOADS = tuple(
    Workload(
        f"attention-{length}",
        "f",
        f"attention 1 x 8 x {length} x 64, forward and backward",
        {
            "full": Sizes(heads=8, length=length, width=64),
            "toy": Sizes(heads=2, length=16, width=4),
        },
        feed,
        model,
        torch,
        head="mean_square",
        optimizer=Optimizer("sgd", 100.0),
        flags=("fuse_dot_product_attention",),
    )
    for length in (512, 2048, 8192)
)
