"""ShuffleNet v2."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphopt.nn.functional.vision import channel_shuffle
from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.of_functions import AdaptiveAvgPool2D, MaxPool2D, ReLU, Swish
from graphopt.tensor.manipulation import concat, flatten, split
from graphopt.vision.models.blocks import ConvNormActivation, Make
from graphopt.vision.models.pretrained import with_weights


class _Half(Layer):
    """A unit that computes one half of the channels and passes the other half unchanged."""

    def __init__(self, channels: int, activation: Make) -> None:
        super().__init__()
        half = channels // 2
        conv = partial(ConvNormActivation, activation_layer=activation)
        self._conv_pw = conv(half, half, 1, 1, 0)
        self._conv_dw = ConvNormActivation(half, half, 3, 1, 1, half, activation_layer=None)
        self._conv_linear = conv(half, half, 1, 1, 0)

    def forward(self, inputs: Any) -> Any:
        kept, x = split(inputs, 2, 1)
        x = self._conv_linear(self._conv_dw(self._conv_pw(x)))
        return channel_shuffle(concat([kept, x], 1), 2)


class _Halved(Layer):
    """A unit that halves the image size, by two branches."""

    def __init__(self, inputs: int, outputs: int, activation: Make) -> None:
        super().__init__()
        half = outputs // 2
        conv = partial(ConvNormActivation, activation_layer=activation)
        alone = partial(ConvNormActivation, activation_layer=None)
        self._conv_dw_1 = alone(inputs, inputs, 3, 2, 1, inputs)
        self._conv_linear_1 = conv(inputs, half, 1, 1, 0)
        self._conv_pw_2 = conv(inputs, half, 1, 1, 0)
        self._conv_dw_2 = alone(half, half, 3, 2, 1, half)
        self._conv_linear_2 = conv(half, half, 1, 1, 0)

    def forward(self, inputs: Any) -> Any:
        first = self._conv_linear_1(self._conv_dw_1(inputs))
        second = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(inputs)))
        return channel_shuffle(concat([first, second], 1), 2)


# the channels of the three stages and the last convolution
_CHANNELS = {
    0.25: (24, 48, 96, 512),
    0.33: (32, 64, 128, 512),
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (224, 488, 976, 2048),
}
_ACTIVATIONS: dict[str | None, Make | None] = {"relu": ReLU, "swish": Swish, None: None}


class ShuffleNetV2(Layer):
    """ShuffleNet v2 of a scale, with relu or swish (paddle.vision.models.ShuffleNetV2)."""

    def __init__(
        self,
        scale: float = 1.0,
        act: str | None = "relu",
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        if scale not in _CHANNELS or act not in _ACTIVATIONS:
            raise ValueError(
                f"ShuffleNetV2(): 'scale' should be one of {[*_CHANNELS]} and 'act' relu or swish, "
                f"found {scale} and {act!r}"
            )
        self.num_classes = num_classes
        self.with_pool = with_pool
        activation: Any = _ACTIVATIONS[act]
        *stages, last = _CHANNELS[scale]
        self._conv1 = ConvNormActivation(3, 24, 3, 2, 1, activation_layer=activation)
        self._max_pool = MaxPool2D(3, 2, 1)
        self._units: list[str] = []
        inputs = 24
        for stage, (channels, count) in enumerate(zip(stages, (4, 8, 4), strict=True), 2):
            self._add(f"{stage}_1", _Halved(inputs, channels, activation))
            for number in range(2, count + 1):
                self._add(f"{stage}_{number}", _Half(channels, activation))
            inputs = channels
        self._last_conv = ConvNormActivation(inputs, last, 1, 1, 0, activation_layer=activation)
        if with_pool:
            self._pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = Linear(last, num_classes)

    def _add(self, name: str, unit: Layer) -> None:
        self._units.append(name)
        self.add_sublayer(name, unit)

    def forward(self, inputs: Any) -> Any:
        x = self._max_pool(self._conv1(inputs))
        for name in self._units:
            x = getattr(self, name)(x)
        x = self._last_conv(x)
        x = self._pool2d_avg(x) if self.with_pool else x
        return self._fc(flatten(x, 1)) if self.num_classes > 0 else x


def _shufflenet(arch: str, scale: float, pretrained: bool | str, kwargs: Any) -> ShuffleNetV2:
    return with_weights(ShuffleNetV2(scale, **kwargs), arch, f"{arch}.pdparams", pretrained)


def shufflenet_v2_x0_25(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 0.25 (paddle.vision.models.shufflenet_v2_x0_25)."""
    return _shufflenet("shufflenet_v2_x0_25", 0.25, pretrained, kwargs)


def shufflenet_v2_x0_33(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 0.33 (paddle.vision.models.shufflenet_v2_x0_33)."""
    return _shufflenet("shufflenet_v2_x0_33", 0.33, pretrained, kwargs)


def shufflenet_v2_x0_5(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 0.5 (paddle.vision.models.shufflenet_v2_x0_5)."""
    return _shufflenet("shufflenet_v2_x0_5", 0.5, pretrained, kwargs)


def shufflenet_v2_x1_0(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 1 (paddle.vision.models.shufflenet_v2_x1_0)."""
    return _shufflenet("shufflenet_v2_x1_0", 1.0, pretrained, kwargs)


def shufflenet_v2_x1_5(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 1.5 (paddle.vision.models.shufflenet_v2_x1_5)."""
    return _shufflenet("shufflenet_v2_x1_5", 1.5, pretrained, kwargs)


def shufflenet_v2_x2_0(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 2 (paddle.vision.models.shufflenet_v2_x2_0)."""
    return _shufflenet("shufflenet_v2_x2_0", 2.0, pretrained, kwargs)


def shufflenet_v2_swish(pretrained: bool | str = False, **kwargs: Any) -> ShuffleNetV2:
    """Build ShuffleNet v2 of scale 1 with swish (paddle.vision.models.shufflenet_v2_swish)."""
    return _shufflenet("shufflenet_v2_swish", 1.0, pretrained, {"act": "swish", **kwargs})
