"""What is run on GPUs: attention and training, in float32 and with products in bfloat16."""

from __future__ import annotations

from dataclasses import replace

from suite.workload import Sizes, Workload
from suite.workloads import attention, resnet, transformer

LARGE = Sizes(batch=32, length=512, words=32_000, width=1024, heads=16, layers=8)
BY_NAME = {
    workload.name: workload
    for module in (attention, resnet, transformer)
    for workload in module.WORKLOADS
}


def on_gpu(
    name: str, title: str, full: Sizes, *, low: str = "", parallel: bool = False
) -> Workload:
    """A workload of the suite at a size for GPUs; the peers are for CPUs."""
    base = BY_NAME[name]
    suffix = "-parallel" if parallel else "-bf16" if low else ""
    return replace(
        base,
        name=f"gpu-{name}{suffix}",
        title=f"{title}, {'bfloat16 products' if low else 'float32'}",
        sizes={**base.sizes, "full": full},
        torch=None,
        tolerance=0.05 if low else 1e-2,
        low=low,
        parallel=parallel,
    )


WORKLOADS = tuple(
    on_gpu(name, title, full, low=low, parallel=parallel)
    for name, title, full, lows, parallel in (
        (
            "attention-2048",
            "attention 8 x 16 x 2048 x 64",
            Sizes(batch=8, heads=16, length=2048, width=64),
            ("", "bfloat16"),
            False,
        ),
        (
            "attention-8192",
            "attention 1 x 16 x 8192 x 64",
            Sizes(batch=1, heads=16, length=8192, width=64),
            ("", "bfloat16"),
            False,
        ),
        (
            "resnet18-training",
            "ResNet-18 training, 128 pictures of 224",
            Sizes(batch=128, side=224, **resnet.RESNET18),
            ("", "bfloat16"),
            False,
        ),
        (
            "transformer",
            "Transformer training, 8 layers of 1024, 32 x 512 words",
            LARGE,
            ("", "bfloat16"),
            False,
        ),
        (
            "transformer",
            "Transformer training on all GPUs, 8 layers of 1024, 32 x 512 words",
            LARGE,
            ("bfloat16",),
            True,
        ),
    )
    for low in lows
)
