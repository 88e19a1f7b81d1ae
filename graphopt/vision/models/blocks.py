"""Blocks that several models share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphopt.frontend.initializers.fill import Uniform
from graphopt.frontend.parameters import ParamAttr
from graphopt.nn.layer.container import Sequential
from graphopt.nn.layer.conv import Conv2D
from graphopt.nn.layer.norm import BatchNorm2D
from graphopt.nn.layer.of_functions import ReLU

Make = Callable[..., Any]


class ConvNormActivation(Sequential):
    """A convolution, a normalization and an activation; None leaves one of the last two out."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Make | None = BatchNorm2D,
        activation_layer: Make | None = ReLU,
    ) -> None:
        around = (kernel_size - 1) // 2 if padding is None else padding
        layers: list[Any] = [
            Conv2D(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                around,
                groups=groups,
                bias_attr=None if norm_layer is None else False,
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)


def uniform_attr(fan_in: float) -> ParamAttr:
    """Build a parameter attribute whose initial values are uniform within 1 / sqrt(fan-in)."""
    bound = 1.0 / math.sqrt(fan_in)
    return ParamAttr(initializer=Uniform(-bound, bound))


def make_divisible(channels: float, divisor: int = 8) -> int:
    """Round `channels` to a multiple of `divisor` that is at most 10 % smaller."""
    near = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * channels else near
