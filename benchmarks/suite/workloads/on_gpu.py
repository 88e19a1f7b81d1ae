"""The workloads for GPUs, in the order in which they run: the most important come first."""

from __future__ import annotations

from dataclasses import replace

from suite.workload import Sizes, Workload
from suite.workloads import attention, mlp, recommender, resnet, tiny_fc, transformer

BF16 = "bfloat16"
LARGE = Sizes(batch=32, length=512, words=32_000, width=1024, heads=16, layers=8)
BY_NAME = {
    workload.name: workload
    for module in (attention, mlp, recommender, resnet, tiny_fc, transformer)
    for workload in module.WORKLOADS
} | {workload.name: workload for workload in (transformer.BERT, transformer.GPT, transformer.VIT)}
INFERENCE = replace(BY_NAME["resnet50-b8"], name="resnet50", title="ResNet-50 inference")
TRAINING = replace(
    BY_NAME["resnet18-training"],
    sizes=BY_NAME["resnet50-b8"].sizes,
    name="resnet50-training",
    title="ResNet-50 training",
)


def on_gpu(
    base: Workload,
    title: str,
    full: Sizes | None = None,
    *,
    low: str = "",
    parallel: bool = False,
    on_device: bool = True,
    counted: str = "",
) -> Workload:
    """Derive a workload at a size for GPUs, by default with its feed on the device."""
    ends = {"-bf16": low, "-parallel": parallel, "-fed": not on_device}
    words = [title, "bfloat16 products" if low else "float32", "" if on_device else "NumPy fed"]
    return replace(
        base,
        name="-".join(["gpu", base.name]) + "".join(end for end, holds in ends.items() if holds),
        title=", ".join(filter(None, words)),
        sizes={**base.sizes, "full": full or base.sizes["full"]},
        tolerance=0.05 if low else 1e-2,
        low=low,
        parallel=parallel,
        on_device=on_device,
        counted=counted,
    )


def attention_of(length: int, batch: int) -> Workload:
    """Derive attention in bfloat16, with 16 heads of 64."""
    sizes = Sizes(batch=batch, heads=16, length=length, width=64)
    title = f"attention {batch} x 16 x {length} x 64, forward and backward"
    return on_gpu(BY_NAME[f"attention-{length}"], title, sizes, low=BF16)


R18 = Sizes(batch=128, side=224, **resnet.RESNET18)
R50 = Sizes(batch=32, side=224, **resnet.RESNET50)
R50_TRAINED = Sizes(batch=128, side=224, **resnet.RESNET50)
EIGHT = "Transformer training{}, 8 layers of 1024, 32 x 512 words"

WORKLOADS = (
    on_gpu(BY_NAME["tiny-fc"], "tiny fc step, SGD"),
    on_gpu(BY_NAME["mlp"], "MLP 784-512-512-10, batch 128, Adam"),
    attention_of(2048, 8),
    attention_of(8192, 1),
    on_gpu(BY_NAME["transformer"], EIGHT.format(""), LARGE, low=BF16, counted="words"),
    on_gpu(INFERENCE, "ResNet-50 inference, 32 images", R50, low=BF16, counted="images"),
    on_gpu(
        TRAINING,
        "ResNet-50 training, 128 images",
        R50_TRAINED,
        low=BF16,
        counted="images",
    ),
    on_gpu(
        transformer.GPT,
        "GPT of 1.3 billion parameters, 24 layers of 2048, 2 x 2048 words, AdamW",
        low=BF16,
        counted="words",
    ),
    on_gpu(
        transformer.BERT, "BERT-base training, 32 x 512 words, AdamW", low=BF16, counted="words"
    ),
    on_gpu(transformer.VIT, "ViT-B/16 training, 64 images, AdamW", low=BF16, counted="images"),
    on_gpu(INFERENCE, "ResNet-50 inference, 32 images", R50, counted="images"),
    on_gpu(
        BY_NAME["resnet18-training"],
        "ResNet-18 training, 128 images",
        R18,
        low=BF16,
        counted="images",
    ),
    on_gpu(BY_NAME["recommender-lazy-adam"], BY_NAME["recommender-lazy-adam"].title),
    on_gpu(BY_NAME["mlp"], "MLP 784-512-512-10, batch 128, Adam", on_device=False),
    on_gpu(BY_NAME["transformer"], EIGHT.format(""), LARGE, counted="words"),
    on_gpu(
        BY_NAME["transformer"],
        EIGHT.format(" on all GPUs"),
        LARGE,
        low=BF16,
        parallel=True,
        counted="words",
    ),
)
