"""Residual networks, plain, grouped and wide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.container import Sequential
from graphopt.nn.layer.conv import Conv2D
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.norm import BatchNorm2D
from graphopt.nn.layer.of_functions import AdaptiveAvgPool2D, MaxPool2D, ReLU
from graphopt.tensor.manipulation import flatten
from graphopt.tensor.math import add
from graphopt.vision.models.pretrained import with_weights

Normalize = Callable[[int], Layer]
"""Creates the normalization layer for a number of channels."""


class BasicBlock(Layer):
    """Two convolutions with a shortcut; only BottleneckBlock uses `groups` and `base_width`.

    NotImplementedError for a `dilation` above 1.
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Normalize | None = None,
    ) -> None:
        super().__init__()
        if dilation > 1:
            raise NotImplementedError(
                "BasicBlock(): Dilation > 1 not supported in BasicBlock; BottleneckBlock has it"
            )
        normalize = norm_layer or BatchNorm2D
        self.conv1 = Conv2D(inplanes, planes, 3, stride, 1, bias_attr=False)
        self.bn1 = normalize(planes)
        self.relu = ReLU()
        self.conv2 = Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = normalize(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(add(out, x if self.downsample is None else self.downsample(x)))


class BottleneckBlock(Layer):
    """Three convolutions with a shortcut, the middle one narrow."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Normalize | None = None,
    ) -> None:
        super().__init__()
        normalize = norm_layer or BatchNorm2D
        width = int(planes * (base_width / 64.0)) * groups
        outputs = planes * self.expansion
        self.conv1 = Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = normalize(width)
        self.conv2 = Conv2D(width, width, 3, stride, dilation, dilation, groups, bias_attr=False)
        self.bn2 = normalize(width)
        self.conv3 = Conv2D(width, outputs, 1, bias_attr=False)
        self.bn3 = normalize(outputs)
        self.relu = ReLU()
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(add(out, x if self.downsample is None else self.downsample(x)))


Block = type[BasicBlock] | type[BottleneckBlock]
_BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


class ResNet(Layer):
    """A residual network of blocks, for images [n, 3, 224, 224] (paddle.vision.models.ResNet).

    `depth` is 18, 34, 50, 101 or 152; without `with_pool` the features stay images, and
    `num_classes` 0 leaves the classifier out. ValueError for another depth.
    """

    def __init__(
        self,
        block: Block,
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.groups, self.base_width = groups, width
        self.inplanes, self.dilation = 64, 1
        self._norm_layer = BatchNorm2D
        self.conv1 = Conv2D(3, 64, 7, 2, 3, bias_attr=False)
        self.bn1 = BatchNorm2D(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2D(3, 2, 1)
        if depth not in _BLOCKS:
            raise ValueError(f"ResNet(): 'depth' should be one of {[*_BLOCKS]}, found {depth}")
        counts = _BLOCKS[depth]
        self.layer1 = self._make_layer(block, 64, counts[0])
        self.layer2 = self._make_layer(block, 128, counts[1], stride=2)
        self.layer3 = self._make_layer(block, 256, counts[2], stride=2)
        self.layer4 = self._make_layer(block, 512, counts[3], stride=2)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = Linear(512 * block.expansion, num_classes)

    def _make_layer(
        self, block: Block, planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> Sequential:
        """Build the blocks of one stage; networks derived from this class call it too.

        With `dilate`, dilation replaces the stride: the first block keeps the size, and the first
        block of the next stage is dilated.
        """
        normalize, dilation = self._norm_layer, self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        inputs, outputs = self.inplanes, planes * block.expansion
        downsample = None
        if stride != 1 or inputs != outputs:
            downsample = Sequential(
                Conv2D(inputs, outputs, 1, stride, bias_attr=False), normalize(outputs)
            )
        shared = {"groups": self.groups, "base_width": self.base_width, "norm_layer": normalize}
        first = block(inputs, planes, stride, downsample, dilation=dilation, **shared)
        self.inplanes = outputs
        return Sequential(first, *(block(outputs, planes, **shared) for _ in range(blocks - 1)))

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = self.avgpool(x) if self.with_pool else x
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def _resnet(arch: str, depth: int, pretrained: bool | str, kwargs: Any, **shape: int) -> ResNet:
    block = BasicBlock if depth < 50 else BottleneckBlock
    model = ResNet(block, depth, **{**kwargs, **shape})
    return with_weights(model, arch, f"{arch}.pdparams", pretrained)


def resnet18(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-18 (paddle.vision.models.resnet18)."""
    return _resnet("resnet18", 18, pretrained, kwargs)


def resnet34(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-34 (paddle.vision.models.resnet34)."""
    return _resnet("resnet34", 34, pretrained, kwargs)


def resnet50(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-50 (paddle.vision.models.resnet50)."""
    return _resnet("resnet50", 50, pretrained, kwargs)


def resnet101(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-101 (paddle.vision.models.resnet101)."""
    return _resnet("resnet101", 101, pretrained, kwargs)


def resnet152(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-152 (paddle.vision.models.resnet152)."""
    return _resnet("resnet152", 152, pretrained, kwargs)


def resnext50_32x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNeXt of 50 layers and 32 groups (paddle.vision.models.resnext50_32x4d)."""
    return _resnet("resnext50_32x4d", 50, pretrained, kwargs, groups=32, width=4)


def resnext50_64x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNeXt of 50 layers and 64 groups (paddle.vision.models.resnext50_64x4d)."""
    return _resnet("resnext50_64x4d", 50, pretrained, kwargs, groups=64, width=4)


def resnext101_32x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNeXt of 101 layers and 32 groups (paddle.vision.models.resnext101_32x4d)."""
    return _resnet("resnext101_32x4d", 101, pretrained, kwargs, groups=32, width=4)


def resnext101_64x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNeXt of 101 layers and 64 groups (paddle.vision.models.resnext101_64x4d)."""
    return _resnet("resnext101_64x4d", 101, pretrained, kwargs, groups=64, width=4)


def resnext152_32x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNeXt of 152 layers and 32 groups (paddle.vision.models.resnext152_32x4d)."""
    return _resnet("resnext152_32x4d", 152, pretrained, kwargs, groups=32, width=4)


def resnext152_64x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNeXt of 152 layers and 64 groups (paddle.vision.models.resnext152_64x4d)."""
    return _resnet("resnext152_64x4d", 152, pretrained, kwargs, groups=64, width=4)


def wide_resnet50_2(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-50 with inner layers twice as wide (paddle.vision.models.wide_resnet50_2)."""
    return _resnet("wide_resnet50_2", 50, pretrained, kwargs, width=128)


def wide_resnet101_2(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """Build ResNet-101 with inner layers twice as wide (paddle.vision.models.wide_resnet101_2)."""
    return _resnet("wide_resnet101_2", 101, pretrained, kwargs, width=128)
