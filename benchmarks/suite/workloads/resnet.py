"""(c) ResNet-18 in training and (e) ResNet-50 in inference."""

from __future__ import annotations

from typing import Any

from suite.workload import Optimizer, Sizes, Workload, image_only, images


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute the logits of a ResNet of `blocks` by stage, with bottlenecks or without."""
    block, factor = (bottleneck, 4) if sizes.bottleneck else (basic, 1)
    h = nn.max_pool(nn.conv_bn(feed["x"], sizes.width, 7, stride=2))
    channels = sizes.width
    for stage, blocks in enumerate(sizes.blocks):
        width = sizes.width << stage
        for number in range(blocks):
            stride = 2 if stage and not number else 1
            short = h
            if stride > 1 or channels != factor * width:
                short = nn.conv_bn(h, factor * width, 1, stride=stride, act=None)
            h, channels = nn.relu_sum(short, block(nn, h, width, stride)), factor * width
    return nn.linear(nn.average(h), sizes.classes)


def basic(nn: Any, x: Any, width: int, stride: int) -> Any:
    """Apply two 3 x 3 convolutions."""
    return nn.conv_bn(nn.conv_bn(x, width, 3, stride=stride), width, 3, act=None)


def bottleneck(nn: Any, x: Any, width: int, stride: int) -> Any:
    """Apply a 3 x 3 convolution between two of 1 x 1."""
    h = nn.conv_bn(nn.conv_bn(x, width, 1), width, 3, stride=stride)
    return nn.conv_bn(h, 4 * width, 1, act=None)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    factor = 4 if sizes.bottleneck else 1
    layers = [nn.conv_bn(3, sizes.width, 7, stride=2), nn.max_pool()]
    channels = sizes.width
    for stage, blocks in enumerate(sizes.blocks):
        width = sizes.width << stage
        for number in range(blocks):
            stride = 2 if stage and not number else 1
            short = nn.sequential()
            if stride > 1 or channels != factor * width:
                short = nn.conv_bn(channels, factor * width, 1, stride=stride, act="")
            layers.append(nn.Residual(short, torch_block(nn, channels, width, stride, sizes)))
            channels = factor * width
    return nn.sequential(*layers, nn.Average(), nn.linear(channels, sizes.classes))


def torch_block(nn: Any, inner: int, width: int, stride: int, sizes: Sizes) -> Any:
    """Build the body of a residual block."""
    if not sizes.bottleneck:
        first = nn.conv_bn(inner, width, 3, stride=stride)
        return nn.sequential(first, nn.conv_bn(width, width, 3, act=""))
    return nn.sequential(
        nn.conv_bn(inner, width, 1),
        nn.conv_bn(width, width, 3, stride=stride),
        nn.conv_bn(width, 4 * width, 1, act=""),
    )


FUSIONS = ("fuse_bn_act_ops", "fuse_bn_add_act_ops", "fuse_elewise_add_act_ops")
RESNET18 = {"blocks": (2, 2, 2, 2), "bottleneck": False, "width": 64, "classes": 1000}
RESNET50 = {"blocks": (3, 4, 6, 3), "bottleneck": True, "width": 64, "classes": 1000}
TOY = {"blocks": (1, 1), "width": 4, "classes": 5, "batch": 2, "side": 16}

WORKLOADS = (
    Workload(
        "resnet18-training",
        "ResNet-18 training, 8 images of 224, momentum",
        {"full": Sizes(batch=8, side=224, **RESNET18), "toy": Sizes(bottleneck=False, **TOY)},
        images,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer("momentum", 0.001),
        flags=FUSIONS,
    ),
    *(
        Workload(
            f"resnet50-b{batch}",
            f"ResNet-50 inference, batch {batch}, 224",
            {
                "full": Sizes(batch=batch, side=224, **RESNET50),
                "toy": Sizes(bottleneck=True, **TOY),
            },
            image_only,
            model,
            torch,
            flags=FUSIONS,
        )
        for batch in (1, 8)
    ),
)
