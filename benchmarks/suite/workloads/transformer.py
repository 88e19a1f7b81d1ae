"""(d) Transformers: an encoder with AdamW, one of many layers, BERT-base, ViT-B and a GPT."""

from __future__ import annotations

from typing import Any

from suite.workload import Optimizer, Sizes, Workload, images, sentences


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute the logits of each word."""
    h = nn.embedding(feed["x"], sizes.words, sizes.width)
    for _ in range(sizes.layers):
        h = nn.encoder(h, sizes.heads)
    return nn.linear(h, sizes.words)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    layers = [nn.Encoder(sizes.width, sizes.heads) for _ in range(sizes.layers)]
    last = nn.linear(sizes.width, sizes.words)
    return nn.sequential(nn.embedding(sizes.words, sizes.width), *layers, last)


def with_positions(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute each word's logits in BERT, norm last, or in a GPT, norm first and causal."""
    h = nn.embedding(feed["x"], sizes.words, sizes.width)
    h = nn.positions(h)
    h = h if sizes.causal else nn.norm(h)
    for _ in range(sizes.layers):
        h = nn.encoder(h, sizes.heads, first=sizes.causal, causal=sizes.causal)
    return nn.linear(nn.norm(h) if sizes.causal else h, sizes.words)


def torch_with_positions(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    width, norm = sizes.width, nn.norm(sizes.width)
    layer = (width, sizes.heads, sizes.causal, sizes.causal)
    body = [nn.Encoder(*layer) for _ in range(sizes.layers)]
    first = [nn.embedding(sizes.words, width), nn.Positions(sizes.length, width)]
    ends = [*body, norm] if sizes.causal else [norm, *body]
    return nn.sequential(*first, *ends, nn.linear(width, sizes.words))


def vision(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute the logits of a ViT: patches and a class token, norm first."""
    h = nn.positions(nn.with_token(nn.patches(feed["x"], sizes.patch, sizes.width)))
    for _ in range(sizes.layers):
        h = nn.encoder(h, sizes.heads, first=True)
    return nn.linear(nn.first(nn.norm(h)), sizes.classes)


def torch_vision(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    width, count = sizes.width, (sizes.side // sizes.patch) ** 2 + 1
    body = [nn.Encoder(width, sizes.heads, first=True) for _ in range(sizes.layers)]
    start = [nn.Patches(sizes.patch, width), nn.Token(width), nn.Positions(count, width)]
    return nn.sequential(*start, *body, nn.norm(width), nn.First(), nn.linear(width, sizes.classes))


FLAGS = ("fused_feedforward", "fuse_dot_product_attention", "fuse_gemm_epilogue")
TOY = Sizes(batch=4, length=6, words=11, width=8, heads=2, layers=2)
BASE = {"width": 768, "heads": 12, "layers": 12}

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
BERT = Workload(
    "bert-base",
    "BERT-base training",
    {
        "full": Sizes(**BASE, batch=32, length=512, words=30_522, causal=False),
        "toy": Sizes(**vars(TOY), causal=False),
    },
    sentences,
    with_positions,
    torch_with_positions,
    head="cross_entropy",
    optimizer=Optimizer("adamw", 1e-4),
    flags=FLAGS,
)
GPT = Workload(
    "gpt",
    "GPT training",
    {
        "full": Sizes(
            batch=2, length=2048, words=50_304, width=2048, heads=16, layers=24, causal=True
        ),
        "toy": Sizes(**vars(TOY), causal=True),
    },
    sentences,
    with_positions,
    torch_with_positions,
    head="cross_entropy",
    optimizer=Optimizer("adamw", 1e-4),
    flags=FLAGS,
    alone=True,
)
VIT = Workload(
    "vit-b",
    "ViT-B/16 training",
    {
        "full": Sizes(**BASE, batch=64, side=224, patch=16, classes=1000),
        "toy": Sizes(batch=2, side=8, patch=4, width=8, heads=2, layers=2, classes=5),
    },
    images,
    vision,
    torch_vision,
    head="cross_entropy",
    optimizer=Optimizer("adamw", 1e-4),
    flags=FLAGS,
)
