"""Models in which one rewrite is most of the step; only ablations run them, in graphopt alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.workload import Arrays, Optimizer, Sizes, Workload


def columns(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw a batch of column vectors: [width, batch]."""
    return {"x": random.standard_normal((sizes.width, sizes.batch), "float32")}


def chain(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute (A B) x, which as A (B x) needs a fraction of the work."""
    first, second = (nn.parameter([sizes.width, sizes.width], 0.02) for _ in range(2))
    return nn.paddle.matmul(nn.paddle.matmul(first, second), feed["x"])


WORKLOADS = (
    Workload(
        "matrix-chain",
        "A B x of 1024 x 1024 matrices and 8 vectors, SGD",
        {"full": Sizes(batch=8, width=1024), "toy": Sizes(batch=2, width=8)},
        columns,
        chain,
        head="mean_square",
        # trained: constant matrices would be multiplied only once, in any order
        optimizer=Optimizer("sgd", 1e-3),
    ),
)
