"""Residual networks, plain, grouped and wide."""

from __future__ import annotations

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


class BasicBlock(Layer):
    """Two convolutions beside an identity; for `groups` 1 and `base_width` 64 only."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
    ) -> None:
        super().__init__()
        self.conv1 = Conv2D(inplanes, planes, 3, stride, 1, bias_attr=False)
        self.bn1 = BatchNorm2D(planes)
        self.relu = ReLU()
        self.conv2 = Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = BatchNorm2D(planes)
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(add(out, x if self.downsample is None else self.downsample(x)))


class BottleneckBlock(Layer):
    """Three convolutions, the middle one narrow, beside an identity."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
    ) -> None:
        super().__init__()
        width = int(planes * (base_width / 64.0)) * groups
        outputs = planes * self.expansion
        self.conv1 = Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = BatchNorm2D(width)
        self.conv2 = Conv2D(width, width, 3, stride, 1, groups=groups, bias_attr=False)
        self.bn2 = BatchNorm2D(width)
        self.conv3 = Conv2D(width, outputs, 1, bias_attr=False)
        self.bn3 = BatchNorm2D(outputs)
        self.relu = ReLU()
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(add(out, x if self.downsample is None else self.downsample(x)))


_BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


class ResNet(Layer):
    """A residual network of blocks, for images [n, 3, 224, 224] (paddle.vision.models.ResNet).

    Without `with_pool` the features stay images; `num_classes` 0 leaves the classifier out.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[BottleneckBlock],
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.conv1 = Conv2D(3, 64, 7, 2, 3, bias_attr=False)
        self.bn1 = BatchNorm2D(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2D(3, 2, 1)
        inplanes = 64
        for number, count in enumerate(_BLOCKS[depth]):
            planes, stride = 64 << number, 2 if number else 1
            outputs = planes * block.expansion
            downsample = None
            if stride != 1 or inplanes != outputs:
                downsample = Sequential(
                    Conv2D(inplanes, outputs, 1, stride, bias_attr=False), BatchNorm2D(outputs)
                )
            first = block(inplanes, planes, stride, downsample, groups, width)
            more = [
                block(outputs, planes, groups=groups, base_width=width) for _ in range(count - 1)
            ]
            self.add_sublayer(f"layer{number + 1}", Sequential(first, *more))
            inplanes = outputs
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = Linear(512 * block.expansion, num_classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, 5):
            x = getattr(self, f"layer{number}")(x)
        x = self.avgpool(x) if self.with_pool else x
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def _resnet(arch: str, depth: int, pretrained: bool | str, kwargs: Any, **shape: int) -> ResNet:
    block = BasicBlock if depth < 50 else BottleneckBlock
    model = ResNet(block, depth, **{**kwargs, **shape})
    return with_weights(model, arch, f"{arch}.pdparams", pretrained)


def resnet18(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 18 layers (paddle.vision.models.resnet18)."""
    return _resnet("resnet18", 18, pretrained, kwargs)


def resnet34(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 34 layers (paddle.vision.models.resnet34)."""
    return _resnet("resnet34", 34, pretrained, kwargs)


def resnet50(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers (paddle.vision.models.resnet50)."""
    return _resnet("resnet50", 50, pretrained, kwargs)


def resnet101(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers (paddle.vision.models.resnet101)."""
    return _resnet("resnet101", 101, pretrained, kwargs)


def resnet152(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 152 layers (paddle.vision.models.resnet152)."""
    return _resnet("resnet152", 152, pretrained, kwargs)


def resnext50_32x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers, 32 groups (paddle.vision.models.resnext50_32x4d)."""
    return _resnet("resnext50_32x4d", 50, pretrained, kwargs, groups=32, width=4)


def resnext50_64x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers, 64 groups (paddle.vision.models.resnext50_64x4d)."""
    return _resnet("resnext50_64x4d", 50, pretrained, kwargs, groups=64, width=4)


def resnext101_32x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 101 layers, 32 groups (paddle.vision.models.resnext101_32x4d)."""
    return _resnet("resnext101_32x4d", 101, pretrained, kwargs, groups=32, width=4)


def resnext101_64x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 101 layers, 64 groups (paddle.vision.models.resnext101_64x4d)."""
    return _resnet("resnext101_64x4d", 101, pretrained, kwargs, groups=64, width=4)


def resnext152_32x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 152 layers, 32 groups (paddle.vision.models.resnext152_32x4d)."""
    return _resnet("resnext152_32x4d", 152, pretrained, kwargs, groups=32, width=4)


def resnext152_64x4d(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 152 layers, 64 groups (paddle.vision.models.resnext152_64x4d)."""
    return _resnet("resnext152_64x4d", 152, pretrained, kwargs, groups=64, width=4)


def wide_resnet50_2(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers, twice as wide inside (paddle.vision.models.wide_resnet50_2)."""
    return _resnet("wide_resnet50_2", 50, pretrained, kwargs, width=128)


def wide_resnet101_2(pretrained: bool | str = False, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers, twice as wide inside (paddle.vision.models.wide_resnet101_2)."""
    return _resnet("wide_resnet101_2", 101, pretrained, kwargs, width=128)
