"""Densely connected networks."""

from __future__ import annotations

from typing import Any

from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.conv import Conv2D
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.norm import BatchNorm
from graphopt.nn.layer.of_functions import AdaptiveAvgPool2D, AvgPool2D, Dropout, MaxPool2D
from graphopt.tensor.manipulation import concat, flatten
from graphopt.vision.models.blocks import uniform_attr
from graphopt.vision.models.pretrained import with_weights


class _NormConv(Layer):
    def __init__(self, inputs: int, outputs: int, size: int, padding: int = 0) -> None:
        super().__init__()
        self._batch_norm = BatchNorm(inputs, act="relu")
        self._conv = Conv2D(inputs, outputs, size, padding=padding, bias_attr=False)

    def forward(self, input: Any) -> Any:
        return self._conv(self._batch_norm(input))


class _ConvNorm(Layer):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self._conv = Conv2D(inputs, outputs, 7, 2, 3, bias_attr=False)
        self._batch_norm = BatchNorm(outputs, act="relu")

    def forward(self, input: Any) -> Any:
        return self._batch_norm(self._conv(input))


class _DenseLayer(Layer):
    def __init__(self, inputs: int, growth: int, bn_size: int, dropout: float) -> None:
        super().__init__()
        self.bn_ac_func1 = _NormConv(inputs, bn_size * growth, 1)
        self.bn_ac_func2 = _NormConv(bn_size * growth, growth, 3, 1)
        self.dropout_func = Dropout(dropout, mode="downscale_in_infer") if dropout else None

    def forward(self, input: Any) -> Any:
        made = self.bn_ac_func2(self.bn_ac_func1(input))
        made = made if self.dropout_func is None else self.dropout_func(made)
        return concat([input, made], 1)


class _Layers(Layer):
    """Named layers, one after the other."""

    def forward(self, input: Any) -> Any:
        for layer in self.children():
            input = layer(input)
        return input


class _Transition(Layer):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv_ac_func = _NormConv(inputs, outputs, 1)
        self.pool2d_avg = AvgPool2D(2, 2)

    def forward(self, input: Any) -> Any:
        return self.pool2d_avg(self.conv_ac_func(input))


# channels at first, growth for each layer, layers in the four blocks
_SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
    264: (64, 32, (6, 12, 64, 48)),
}


class DenseNet(Layer):
    """DenseNet of 121, 161, 169, 201 or 264 layers (paddle.vision.models.DenseNet)."""

    def __init__(
        self,
        layers: int = 121,
        bn_size: int = 4,
        dropout: float = 0.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        if layers not in _SPECS:
            raise ValueError(f"DenseNet(): 'layers' should be one of {[*_SPECS]}, found {layers}")
        self.num_classes = num_classes
        self.with_pool = with_pool
        channels, growth, blocks = _SPECS[layers]
        self.conv1_func = _ConvNorm(3, channels)
        self.pool2d_max = MaxPool2D(3, 2, 1)
        self._stages: list[str] = []
        for number, count in enumerate(blocks, 2):
            block = _Layers()
            for index in range(1, count + 1):
                dense = _DenseLayer(channels, growth, bn_size, dropout)
                block.add_sublayer(f"conv{number}_{index}", dense)
                channels += growth
            self._add(f"db_conv_{number}", block)
            if number < 5:
                self._add(f"tr_conv{number}_blk", _Transition(channels, channels // 2))
                channels //= 2
        self.batch_norm = BatchNorm(channels, act="relu")
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.out = Linear(channels, num_classes, weight_attr=uniform_attr(channels))

    def _add(self, name: str, layer: Layer) -> None:
        self._stages.append(name)
        self.add_sublayer(name, layer)

    def forward(self, input: Any) -> Any:
        x = self.pool2d_max(self.conv1_func(input))
        for name in self._stages:
            x = getattr(self, name)(x)
        x = self.batch_norm(x)
        x = self.pool2d_avg(x) if self.with_pool else x
        return self.out(flatten(x, 1)) if self.num_classes > 0 else x


def _densenet(layers: int, pretrained: bool | str, kwargs: Any) -> DenseNet:
    file = f"DenseNet{layers}_pretrained.pdparams"
    return with_weights(DenseNet(layers, **kwargs), f"densenet{layers}", file, pretrained)


def densenet121(pretrained: bool | str = False, **kwargs: Any) -> DenseNet:
    """Build DenseNet-121 (paddle.vision.models.densenet121)."""
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained: bool | str = False, **kwargs: Any) -> DenseNet:
    """Build DenseNet-161 (paddle.vision.models.densenet161)."""
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained: bool | str = False, **kwargs: Any) -> DenseNet:
    """Build DenseNet-169 (paddle.vision.models.densenet169)."""
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained: bool | str = False, **kwargs: Any) -> DenseNet:
    """Build DenseNet-201 (paddle.vision.models.densenet201)."""
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained: bool | str = False, **kwargs: Any) -> DenseNet:
    """Build DenseNet-264 (paddle.vision.models.densenet264)."""
    return _densenet(264, pretrained, kwargs)
