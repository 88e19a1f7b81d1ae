"""(b) A multilayer perceptron with Adam."""

from __future__ import annotations

from typing import Any

from suite.workload import Optimizer, Sizes, Workload, rows


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Apply layers of sizes inputs - width - width - classes."""
    h = nn.linear(feed["x"], sizes.width, "relu")
    h = nn.linear(h, sizes.width, "relu")
    return nn.linear(h, sizes.classes)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    return nn.sequential(
        nn.linear(sizes.inputs, sizes.width),
        nn.relu(),
        nn.linear(sizes.width, sizes.width),
        nn.relu(),
        nn.linear(sizes.width, sizes.classes),
    )


WORKLOADS = (
    Workload(
        "mlp",
        "MLP 784-512-512-10, batch 128, Adam",
        {
            "full": Sizes(batch=128, inputs=784, width=512, classes=10),
            "toy": Sizes(batch=4, inputs=6, width=8, classes=3),
        },
        rows,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer("adam"),
        flags=("fuse_gemm_epilogue",),
    ),
)
