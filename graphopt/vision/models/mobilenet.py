"""MobileNet v1, v2 and v3; `scale` multiplies the channels."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.container import Sequential
from graphopt.nn.layer.conv import Conv2D
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.norm import BatchNorm2D
from graphopt.nn.layer.of_functions import (
    AdaptiveAvgPool2D,
    Dropout,
    Hardsigmoid,
    Hardswish,
    ReLU,
    ReLU6,
)
from graphopt.tensor.manipulation import flatten
from graphopt.tensor.math import add, multiply
from graphopt.vision.models.blocks import ConvNormActivation, Make, make_divisible
from graphopt.vision.models.pretrained import with_weights


class _Separable(Layer):
    """A depthwise convolution, then a pointwise one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self._depthwise_conv = ConvNormActivation(inputs, inputs, 3, stride, 1, inputs)
        self._pointwise_conv = ConvNormActivation(inputs, outputs, 1, 1, 0)

    def forward(self, x: Any) -> Any:
        return self._pointwise_conv(self._depthwise_conv(x))


# name, input channels, output channels, stride
_V1 = (
    ("conv2_1", 32, 64, 1),
    ("conv2_2", 64, 128, 2),
    ("conv3_1", 128, 128, 1),
    ("conv3_2", 128, 256, 2),
    ("conv4_1", 256, 256, 1),
    ("conv4_2", 256, 512, 2),
    *((f"conv5_{number}", 512, 512, 1) for number in range(1, 6)),
    ("conv5_6", 512, 1024, 2),
    ("conv6", 1024, 1024, 1),
)


class MobileNetV1(Layer):
    """MobileNet v1 (paddle.vision.models.MobileNetV1)."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.conv1 = ConvNormActivation(3, int(32 * scale), 3, 2, 1)
        for name, inputs, outputs, stride in _V1:
            block = _Separable(int(inputs * scale), int(outputs * scale), stride)
            self.add_sublayer(name, block)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = Linear(int(1024 * scale), num_classes)

    def forward(self, x: Any) -> Any:
        x = self.conv1(x)
        for name, *_ in _V1:
            x = getattr(self, name)(x)
        x = self.pool2d_avg(x) if self.with_pool else x
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v1(pretrained: bool | str = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """Build MobileNet v1 (paddle.vision.models.mobilenet_v1)."""
    file = "mobilenetv1_1.0.pdparams" if scale == 1.0 else ""
    return with_weights(MobileNetV1(scale, **kwargs), f"mobilenetv1_{scale}", file, pretrained)


class _Inverted(Layer):
    """An inverted residual block, with a shortcut where the shape stays (v2)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        self._residual = stride == 1 and inputs == outputs
        inner = inputs * expand
        conv = partial(ConvNormActivation, activation_layer=ReLU6)
        layers = [conv(inputs, inner, 1)] if expand != 1 else []
        layers += [
            conv(inner, inner, stride=stride, groups=inner),
            Conv2D(inner, outputs, 1, bias_attr=False),
            BatchNorm2D(outputs),
        ]
        self.conv = Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return add(x, self.conv(x)) if self._residual else self.conv(x)


# expansion, channels, blocks, stride of the first block
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class MobileNetV2(Layer):
    """MobileNet v2 (paddle.vision.models.MobileNetV2)."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        inputs = make_divisible(32 * scale)
        last = make_divisible(1280 * max(1.0, scale))
        features: list[Any] = [ConvNormActivation(3, inputs, stride=2, activation_layer=ReLU6)]
        for expand, channels, count, stride in _V2:
            outputs = make_divisible(channels * scale)
            for number in range(count):
                features.append(_Inverted(inputs, outputs, 1 if number else stride, expand))
                inputs = outputs
        features.append(ConvNormActivation(inputs, last, 1, activation_layer=ReLU6))
        self.features = Sequential(*features)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(Dropout(0.2), Linear(last, num_classes))

    def forward(self, x: Any) -> Any:
        x = self.features(x)
        x = self.pool2d_avg(x) if self.with_pool else x
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


def mobilenet_v2(pretrained: bool | str = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """Build MobileNet v2 (paddle.vision.models.mobilenet_v2)."""
    file = "mobilenet_v2_x1.0.pdparams" if scale == 1.0 else ""
    return with_weights(MobileNetV2(scale, **kwargs), f"mobilenetv2_{scale}", file, pretrained)


class _Excitation(Layer):
    """Squeeze-and-excitation: channels scaled by factors in 0..1 that their means determine."""

    def __init__(self, inputs: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = AdaptiveAvgPool2D(1)
        self.fc1 = Conv2D(inputs, squeezed, 1)
        self.fc2 = Conv2D(squeezed, inputs, 1)
        self.activation = ReLU()
        self.scale_activation = Hardsigmoid()

    def forward(self, x: Any) -> Any:
        weight = self.fc2(self.activation(self.fc1(self.avgpool(x))))
        return multiply(self.scale_activation(weight), x)


class _Expanded(Layer):
    """An inverted residual block, with a shortcut where the shape stays (v3)."""

    def __init__(
        self,
        inputs: int,
        size: int,
        inner: int,
        outputs: int,
        excited: bool,
        stride: int,
        activation: Make,
        norm: Make,
    ) -> None:
        super().__init__()
        self._residual = stride == 1 and inputs == outputs
        conv = partial(ConvNormActivation, norm_layer=norm, activation_layer=activation)
        self.expand_conv = conv(inputs, inner, 1, 1, 0) if inputs != inner else None
        self.bottleneck_conv = conv(inner, inner, size, stride, (size - 1) // 2, inner)
        self.mid_se = _Excitation(inner, make_divisible(inner // 4)) if excited else None
        self.linear_conv = ConvNormActivation(
            inner, outputs, 1, 1, 0, norm_layer=norm, activation_layer=None
        )

    def forward(self, x: Any) -> Any:
        made = x if self.expand_conv is None else self.expand_conv(x)
        made = self.bottleneck_conv(made)
        made = made if self.mid_se is None else self.mid_se(made)
        made = self.linear_conv(made)
        return add(x, made) if self._residual else made


# input channels, kernel size, inner channels, output channels, excitation, hard swish, stride
Block = tuple[int, int, int, int, bool, bool, int]
_SMALL: tuple[Block, ...] = (
    (16, 3, 16, 16, True, False, 2),
    (16, 3, 72, 24, False, False, 2),
    (24, 3, 88, 24, False, False, 1),
    (24, 5, 96, 40, True, True, 2),
    (40, 5, 240, 40, True, True, 1),
    (40, 5, 240, 40, True, True, 1),
    (40, 5, 120, 48, True, True, 1),
    (48, 5, 144, 48, True, True, 1),
    (48, 5, 288, 96, True, True, 2),
    (96, 5, 576, 96, True, True, 1),
    (96, 5, 576, 96, True, True, 1),
)
_LARGE: tuple[Block, ...] = (
    (16, 3, 16, 16, False, False, 1),
    (16, 3, 64, 24, False, False, 2),
    (24, 3, 72, 24, False, False, 1),
    (24, 5, 72, 40, True, False, 2),
    (40, 5, 120, 40, True, False, 1),
    (40, 5, 120, 40, True, False, 1),
    (40, 3, 240, 80, False, True, 2),
    (80, 3, 200, 80, False, True, 1),
    (80, 3, 184, 80, False, True, 1),
    (80, 3, 184, 80, False, True, 1),
    (80, 3, 480, 112, True, True, 1),
    (112, 3, 672, 112, True, True, 1),
    (112, 5, 672, 160, True, True, 2),
    (160, 5, 960, 160, True, True, 1),
    (160, 5, 960, 160, True, True, 1),
)


class _MobileNetV3(Layer):
    """MobileNet v3 of blocks."""

    def __init__(
        self,
        blocks: tuple[Block, ...],
        last: int,
        scale: float,
        num_classes: int,
        with_pool: bool,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        norm = partial(BatchNorm2D, epsilon=0.001, momentum=0.99)

        def scale_channels(channels: int) -> int:
            return make_divisible(channels * scale)

        conv = partial(ConvNormActivation, norm_layer=norm, activation_layer=Hardswish)
        self.conv = conv(3, scale_channels(blocks[0][0]), 3, 2, 1)
        made = [
            _Expanded(
                scale_channels(inputs),
                size,
                scale_channels(inner),
                scale_channels(outputs),
                excited,
                stride,
                Hardswish if hard else ReLU,
                norm,
            )
            for inputs, size, inner, outputs, excited, hard, stride in blocks
        ]
        self.blocks = Sequential(*made)
        inputs = scale_channels(blocks[-1][0])
        self.lastconv = conv(inputs, 6 * inputs, 1, 1, 0)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            wide = make_divisible(last * scale)
            self.classifier = Sequential(
                Linear(6 * inputs, wide), Hardswish(), Dropout(0.2), Linear(wide, num_classes)
            )

    def forward(self, x: Any) -> Any:
        x = self.lastconv(self.blocks(self.conv(x)))
        x = self.avgpool(x) if self.with_pool else x
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


class MobileNetV3Small(_MobileNetV3):
    """MobileNet v3, small (paddle.vision.models.MobileNetV3Small)."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__(_SMALL, 1024, scale, num_classes, with_pool)


class MobileNetV3Large(_MobileNetV3):
    """MobileNet v3, large (paddle.vision.models.MobileNetV3Large)."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__(_LARGE, 1280, scale, num_classes, with_pool)


def mobilenet_v3_small(
    pretrained: bool | str = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV3Small:
    """Build MobileNet v3, small (paddle.vision.models.mobilenet_v3_small)."""
    arch = f"mobilenet_v3_small_x{scale}"
    file = f"{arch}.pdparams" if scale == 1.0 else ""
    return with_weights(MobileNetV3Small(scale, **kwargs), arch, file, pretrained)


def mobilenet_v3_large(
    pretrained: bool | str = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV3Large:
    """Build MobileNet v3, large (paddle.vision.models.mobilenet_v3_large)."""
    arch = f"mobilenet_v3_large_x{scale}"
    file = f"{arch}.pdparams" if scale == 1.0 else ""
    return with_weights(MobileNetV3Large(scale, **kwargs), arch, file, pretrained)
