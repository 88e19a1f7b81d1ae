"""(j) A recommender: a large table of which a step reads few rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.workload import Arrays, Optimizer, Sizes, Workload


def feed(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw the items [batch, items] that a user viewed, and whether the last one was bought."""
    x = random.integers(0, sizes.words, (sizes.batch, sizes.items))
    return {"x": x, "label": random.integers(0, 2, (sizes.batch, 1))}


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Concatenate the rows of the items, and apply two linear layers."""
    h = nn.flat(nn.embedding(feed["x"], sizes.words, sizes.width, sparse=True))
    return nn.linear(nn.linear(h, sizes.width, "relu"), 2)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    return nn.sequential(
        nn.embedding(sizes.words, sizes.width, sparse=True),
        nn.flat(),
        nn.linear(sizes.items * sizes.width, sizes.width),
        nn.relu(),
        nn.linear(sizes.width, 2),
    )


WORKLOADS = tuple(
    Workload(
        f"recommender-{kind.replace('_', '-')}",
        f"embedding recommender, 100,000 rows of 64, {kind.replace('_', ' ')}",
        {
            "full": Sizes(batch=256, items=8, words=100_000, width=64),
            "toy": Sizes(batch=4, items=3, words=50, width=4),
        },
        feed,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer(kind, rate),
    )
    for kind, rate in (("sgd", 0.1), ("lazy_adam", 0.001))
)
