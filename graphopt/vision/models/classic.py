"""Models without branches or normalization: LeNet, AlexNet, VGG, SqueezeNet."""

from __future__ import annotations

from typing import Any

from graphopt.nn.functional.activation import relu
from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.container import Sequential
from graphopt.nn.layer.conv import Conv2D
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.norm import BatchNorm2D
from graphopt.nn.layer.of_functions import AdaptiveAvgPool2D, Dropout, MaxPool2D, ReLU
from graphopt.tensor.manipulation import concat, flatten, squeeze
from graphopt.vision.models.blocks import uniform_attr
from graphopt.vision.models.pretrained import with_weights


class LeNet(Layer):
    """LeNet for images [n, 1, 28, 28] (paddle.vision.models.LeNet).

    As in all models here, `num_classes` 0 leaves the classifier out.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.features = Sequential(
            Conv2D(1, 6, 3, padding=1),
            ReLU(),
            MaxPool2D(2, 2),
            Conv2D(6, 16, 5),
            ReLU(),
            MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = Sequential(Linear(400, 120), Linear(120, 84), Linear(84, num_classes))

    def forward(self, inputs: Any) -> Any:
        x = self.features(inputs)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x


class _ConvPool(Layer):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int, padding: int) -> None:
        super().__init__()
        self._conv = _conv(inputs, outputs, size, stride, padding)
        self._pool = MaxPool2D(3, 2)

    def forward(self, inputs: Any) -> Any:
        return self._pool(relu(self._conv(inputs)))


def _conv(inputs: int, outputs: int, size: int, stride: int, padding: int) -> Conv2D:
    attrs = [uniform_attr(inputs * size * size) for _ in range(2)]
    return Conv2D(inputs, outputs, size, stride, padding, weight_attr=attrs[0], bias_attr=attrs[1])


class AlexNet(Layer):
    """AlexNet for images [n, 3, 224, 224] (paddle.vision.models.AlexNet)."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = _ConvPool(3, 64, 11, 4, 2)
        self._conv2 = _ConvPool(64, 192, 5, 1, 2)
        self._conv3 = _conv(192, 384, 3, 1, 1)
        self._conv4 = _conv(384, 256, 3, 1, 1)
        self._conv5 = _ConvPool(256, 256, 3, 1, 1)
        if num_classes > 0:
            self._drop1 = Dropout(0.5, mode="downscale_in_infer")
            self._fc6 = _linear(9216, 4096)
            self._drop2 = Dropout(0.5, mode="downscale_in_infer")
            self._fc7 = _linear(4096, 4096)
            self._fc8 = _linear(4096, num_classes)

    def forward(self, inputs: Any) -> Any:
        x = relu(self._conv3(self._conv2(self._conv1(inputs))))
        x = self._conv5(relu(self._conv4(x)))
        if self.num_classes < 1:
            return x
        x = relu(self._fc6(self._drop1(flatten(x, 1))))
        return self._fc8(relu(self._fc7(self._drop2(x))))


def _linear(inputs: int, outputs: int) -> Linear:
    attrs = [uniform_attr(9216) for _ in range(2)]
    return Linear(inputs, outputs, weight_attr=attrs[0], bias_attr=attrs[1])


def alexnet(pretrained: bool | str = False, **kwargs: Any) -> AlexNet:
    """Build AlexNet (paddle.vision.models.alexnet)."""
    return with_weights(AlexNet(**kwargs), "alexnet", "AlexNet_pretrained.pdparams", pretrained)


class VGG(Layer):
    """VGG over layers that find features (paddle.vision.models.VGG)."""

    def __init__(self, features: Layer, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.features = features
        self.num_classes = num_classes
        self.with_pool = with_pool
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(512 * 7 * 7, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, num_classes),
            )

    def forward(self, x: Any) -> Any:
        x = self.features(x)
        x = self.avgpool(x) if self.with_pool else x
        return self.classifier(flatten(x, 1)) if self.num_classes > 0 else x


# the number of convolutions in the five stages, of 64, 128, 256, 512 and 512 channels
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def _vgg(depth: int, file: str, pretrained: bool | str, batch_norm: bool, kwargs: Any) -> VGG:
    layers: list[Any] = []
    inputs = 3
    for channels, count in zip((64, 128, 256, 512, 512), _STAGES[depth], strict=True):
        for _ in range(count):
            norm = [BatchNorm2D(channels)] if batch_norm else []
            layers += [Conv2D(inputs, channels, 3, padding=1), *norm, ReLU()]
            inputs = channels
        layers.append(MaxPool2D(2, 2))
    model = VGG(Sequential(*layers), **kwargs)
    own = "" if batch_norm else file
    return with_weights(model, f"vgg{depth}{'_bn' if batch_norm else ''}", own, pretrained)


def vgg11(pretrained: bool | str = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Build VGG with 11 weight layers (paddle.vision.models.vgg11)."""
    return _vgg(11, "", pretrained, batch_norm, kwargs)


def vgg13(pretrained: bool | str = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Build VGG with 13 weight layers (paddle.vision.models.vgg13)."""
    return _vgg(13, "", pretrained, batch_norm, kwargs)


def vgg16(pretrained: bool | str = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Build VGG with 16 weight layers (paddle.vision.models.vgg16)."""
    return _vgg(16, "vgg16.pdparams", pretrained, batch_norm, kwargs)


def vgg19(pretrained: bool | str = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Build VGG with 19 weight layers (paddle.vision.models.vgg19)."""
    return _vgg(19, "vgg19.pdparams", pretrained, batch_norm, kwargs)


class _FireConv(Layer):
    def __init__(self, inputs: int, outputs: int, size: int, padding: int = 0) -> None:
        super().__init__()
        self._conv = Conv2D(inputs, outputs, size, padding=padding)

    def forward(self, x: Any) -> Any:
        return relu(self._conv(x))


class _Fire(Layer):
    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self._conv = _FireConv(inputs, squeezed, 1)
        self._conv_path1 = _FireConv(squeezed, expanded, 1)
        self._conv_path2 = _FireConv(squeezed, expanded, 3, 1)

    def forward(self, inputs: Any) -> Any:
        x = self._conv(inputs)
        return concat([self._conv_path1(x), self._conv_path2(x)], 1)


class SqueezeNet(Layer):
    """SqueezeNet of version "1.0" or "1.1" (paddle.vision.models.SqueezeNet)."""

    def __init__(self, version: str, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        if version not in ("1.0", "1.1"):
            raise ValueError(f"SqueezeNet(): 'version' should be 1.0 or 1.1, found {version!r}")
        self.num_classes = num_classes
        self.with_pool = with_pool
        first = version == "1.0"
        # the blocks that a pool follows
        self._pooled = (3, 7) if first else (2, 4)
        self._conv = Conv2D(3, 96, 7, 2) if first else Conv2D(3, 64, 3, 2, 1)
        self._pool = MaxPool2D(3, 2)
        inputs = 96 if first else 64
        for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), 1):
            self.add_sublayer(f"_conv{number}", _Fire(inputs, squeezed, 4 * squeezed))
            inputs = 8 * squeezed
        self._drop = Dropout(0.5, mode="downscale_in_infer")
        self._conv9 = Conv2D(512, num_classes, 1)
        self._avg_pool = AdaptiveAvgPool2D(1)

    def forward(self, inputs: Any) -> Any:
        x = self._pool(relu(self._conv(inputs)))
        for number in range(1, 9):
            x = getattr(self, f"_conv{number}")(x)
            x = self._pool(x) if number in self._pooled else x
        if self.num_classes > 0:
            x = self._conv9(self._drop(x))
        return squeeze(self._avg_pool(relu(x)), [2, 3]) if self.with_pool else x


def squeezenet1_0(pretrained: bool | str = False, **kwargs: Any) -> SqueezeNet:
    """Build SqueezeNet 1.0 (paddle.vision.models.squeezenet1_0)."""
    file = "SqueezeNet1_0_pretrained.pdparams"
    return with_weights(SqueezeNet("1.0", **kwargs), "squeezenet1_0", file, pretrained)


def squeezenet1_1(pretrained: bool | str = False, **kwargs: Any) -> SqueezeNet:
    """Build SqueezeNet 1.1 (paddle.vision.models.squeezenet1_1)."""
    file = "SqueezeNet1_1_pretrained.pdparams"
    return with_weights(SqueezeNet("1.1", **kwargs), "squeezenet1_1", file, pretrained)
