"""(h) A deep stack of equal linear layers, to measure how compile time grows with depth."""

from __future__ import annotations

from typing import Any

from suite.workload import Optimizer, Sizes, Workload, rows


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Apply equal layers; with tanh the numbers neither grow nor vanish."""
    h = nn.linear(feed["x"], sizes.width, "tanh")
    for _ in range(sizes.layers):
        h = nn.linear(h, sizes.width, "tanh")
    return nn.linear(h, sizes.classes)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    layers = [nn.linear(sizes.inputs, sizes.width), nn.tanh()]
    for _ in range(sizes.layers):
        layers += [nn.linear(sizes.width, sizes.width), nn.tanh()]
    return nn.sequential(*layers, nn.linear(sizes.width, sizes.classes))


WORKLOADS = (
    Workload(
        "mlp-200",
        "200-layer MLP of 64: time to compile",
        {
            "full": Sizes(batch=32, inputs=64, width=64, classes=10, layers=200),
            "toy": Sizes(batch=2, inputs=4, width=4, classes=3, layers=3),
        },
        rows,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer("sgd", 0.01),
        compile_only=True,
    ),
)
