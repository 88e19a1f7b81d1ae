"""(d) A Transformer encoder with AdamW, and (h) one of many layers, to see how it compiles."""

from __future__ import annotations

from typing import Any

from suite.workload import Optimizer, Sizes, Workload, sentences


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """The logits of each word."""
    h = nn.embedding(feed["x"], sizes.words, sizes.width)
    for _ in range(sizes.layers):
        h = nn.encoder(h, sizes.heads)
    return nn.linear(h, sizes.words)


def torch(nn: Any, sizes: Sizes) -> Any:
    """The same in PyTorch."""
    layers = [nn.Encoder(sizes.width, sizes.heads) for _ in range(sizes.layers)]
    last = nn.linear(sizes.width, sizes.words)
    return nn.sequential(nn.embedding(sizes.words, sizes.width), *layers, last)


FLAGS = ("fused_feedforward", "fuse_dot_product_attention", "fuse_gemm_epilogue")
TOY = Sizes(batch=4, length=6, words=11, width=8, heads=2, layers=2)

WORKLOADS = (
    Workload(
        "transformer",
        "Transformer training, 4 layers of 256, 8 x 128 words, AdamW",
        {
            "full": Sizes(batch=8, length=128, words=1000, width=256, heads=4, layers=4),
            "toy": TOY,
        },
        sentences,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer("adamw"),
        flags=FLAGS,
    ),
    Workload(
        "transformer-48",
        "48-layer Transformer of 64: time to compile",
        {
            "full": Sizes(batch=2, length=32, words=1000, width=64, heads=4, layers=48),
            "toy": TOY,
        },
        sentences,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer("adamw"),
        flags=FLAGS,
        compile_only=True,
    ),
)
