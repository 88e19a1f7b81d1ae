"""(e2) MobileNetV2, whose depthwise convolutions are most of its time, in both directions."""

from __future__ import annotations

from typing import Any

from suite.workload import Optimizer, Sizes, Workload, image_only, images

# expansion, channels, blocks, stride of the first block
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def model(nn: Any, feed: Any, sizes: Sizes) -> Any:
    """Compute the logits."""
    h, inner = nn.conv_bn(feed["x"], 32, 3, stride=2, act="relu6"), 32
    for factor, outer, blocks, first in sizes.stages:
        for number in range(blocks):
            stride = 1 if number else first
            body = inverted(nn, h, inner, factor, outer, stride)
            h = nn.add(h, body) if stride == 1 and inner == outer else body
            inner = outer
    h = nn.conv_bn(h, sizes.last, 1, act="relu6")
    return nn.linear(nn.average(h), sizes.classes)


def inverted(nn: Any, x: Any, inner: int, factor: int, outer: int, stride: int) -> Any:
    """Widen, convolve each channel separately, and narrow again."""
    wide = inner * factor
    h = nn.conv_bn(x, wide, 1, act="relu6") if factor > 1 else x
    h = nn.conv_bn(h, wide, 3, stride=stride, groups=wide, act="relu6")
    return nn.conv_bn(h, outer, 1, act=None)


def torch(nn: Any, sizes: Sizes) -> Any:
    """Build the same in PyTorch."""
    layers, inner = [nn.conv_bn(3, 32, 3, stride=2, act="relu6")], 32
    for factor, outer, blocks, first in sizes.stages:
        for number in range(blocks):
            stride = 1 if number else first
            body = torch_inverted(nn, inner, factor, outer, stride)
            skips = stride == 1 and inner == outer
            layers.append(nn.Residual(nn.sequential(), body, act=False) if skips else body)
            inner = outer
    layers += [nn.conv_bn(inner, sizes.last, 1, act="relu6"), nn.Average()]
    return nn.sequential(*layers, nn.linear(sizes.last, sizes.classes))


def torch_inverted(nn: Any, inner: int, factor: int, outer: int, stride: int) -> Any:
    """Build an inverted block: widen, convolve each channel separately, and narrow again."""
    wide = inner * factor
    widening = [nn.conv_bn(inner, wide, 1, act="relu6")] if factor > 1 else []
    alone = nn.conv_bn(wide, wide, 3, stride=stride, groups=wide, act="relu6")
    return nn.sequential(*widening, alone, nn.conv_bn(wide, outer, 1, act=""))


FLAGS = ("fuse_bn_act_ops", "fuse_elewise_add_act_ops")
FULL = {"stages": STAGES, "last": 1280, "classes": 1000}
TOY = Sizes(batch=2, side=16, stages=((1, 8, 1, 1), (2, 8, 2, 2)), last=16, classes=5)

WORKLOADS = (
    Workload(
        "mobilenet-b1",
        "MobileNetV2 inference, batch 1, 224",
        {"full": Sizes(batch=1, side=224, **FULL), "toy": TOY},
        image_only,
        model,
        torch,
        flags=FLAGS,
    ),
    Workload(
        "mobilenet-training",
        "MobileNetV2 training, 8 images of 128, momentum",
        {"full": Sizes(batch=8, side=128, **FULL), "toy": TOY},
        images,
        model,
        torch,
        head="cross_entropy",
        optimizer=Optimizer("momentum", 0.001),
        flags=FLAGS,
        tolerance=1e-2,  # its batch norms amplify rounding; in float64 the losses agree to 1e-14
    ),
)
