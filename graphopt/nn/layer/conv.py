"""Convolutions as layers."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.initializers.fill import Normal
from graphopt.nn.functional import conv as functional
from graphopt.nn.functional.vision import pad
from graphopt.nn.layer.layers import Layer, with_defaults


class _Conv(Layer):
    """A filter [out, in / groups, …] that starts normal with variance 2 / fan_in, and a bias."""

    rank: int
    function: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        inputs = arguments.integer(in_channels, "in_channels", kind)
        outputs = arguments.integer(out_channels, "out_channels", kind)
        if groups < 1 or inputs % groups:
            raise ValueError(f"{kind}(): in_channels {inputs} must be divisible by groups={groups}")
        modes = ("zeros", "reflect", "replicate", "circular")
        self._padding_mode = arguments.choice(padding_mode, "padding_mode", kind, modes)
        kernel = arguments.pair(kernel_size, "kernel_size", kind, self.rank)
        arguments.at_least(1, kernel, "kernel_size", kind)
        self._stride, self._padding, self._dilation = stride, padding, dilation
        self._groups, self._data_format = groups, data_format
        # user layers read these
        self._in_channels, self._out_channels, self._kernel_size = inputs, outputs, kernel
        self._param_attr, self._bias_attr = weight_attr, bias_attr
        std = math.sqrt(2.0 / (math.prod(kernel) * inputs))
        shape = [outputs, inputs // groups, *kernel]
        self.weight: Any = self.create_parameter(
            shape, weight_attr, default_initializer=Normal(0.0, std)
        )
        self.bias: Any = self.create_parameter([outputs], bias_attr, is_bias=True)

        # the pad function starts with the last axis
        self._around: list[int] = []
        if padding_mode != "zeros":
            amounts = arguments.pair(padding, "padding", kind, self.rank)
            self._around = [amount for amount in reversed(amounts) for _ in range(2)]

    def forward(self, x: Any) -> Any:
        if self._around:
            x = pad(x, self._around, self._padding_mode, data_format=self._data_format)
        return type(self).function(
            x,
            self.weight,
            self.bias,
            self._stride,
            0 if self._around else self._padding,
            self._dilation,
            self._groups,
            self._data_format,
        )

    def extra_repr(self) -> str:
        outputs, inputs, *kernel = self.weight.shape
        return (
            f"{inputs * self._groups}, {outputs}, kernel_size={kernel}, stride={self._stride}, "
            f"padding={self._padding}, data_format={self._data_format}"
        )


@with_defaults(data_format="NCL")
class Conv1D(_Conv):
    """Convolution of sequences [n, c, l] (paddle.nn.Conv1D)."""

    rank = 1
    function = staticmethod(functional.conv1d)


@with_defaults(data_format="NCHW")
class Conv2D(_Conv):
    """Convolution of images [n, c, h, w] (paddle.nn.Conv2D)."""

    rank = 2
    function = staticmethod(functional.conv2d)


@with_defaults(data_format="NCDHW")
class Conv3D(_Conv):
    """Convolution of volumes [n, c, d, h, w] (paddle.nn.Conv3D)."""

    rank = 3
    function = staticmethod(functional.conv3d)


class _ConvTranspose(Layer):
    """A filter [in, out / groups, …] that starts as XavierUniform, and a bias."""

    rank: int
    function: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        inputs = arguments.integer(in_channels, "in_channels", kind)
        outputs = arguments.integer(out_channels, "out_channels", kind)
        if groups < 1 or inputs % groups or outputs % groups:
            raise ValueError(
                f"{kind}(): in_channels {inputs} and out_channels {outputs} must be divisible by "
                f"groups={groups}"
            )
        kernel = arguments.pair(kernel_size, "kernel_size", kind, self.rank)
        self._window = window = {
            "stride": stride,
            "padding": padding,
            "output_padding": output_padding,
            "dilation": dilation,
            "groups": groups,
            "data_format": data_format,
        }
        # user layers read these
        self.__dict__.update({f"_{name}": value for name, value in window.items()})
        self._in_channels, self._out_channels, self._kernel_size = inputs, outputs, kernel
        self._param_attr, self._bias_attr = weight_attr, bias_attr
        self.weight: Any = self.create_parameter([inputs, outputs // groups, *kernel], weight_attr)
        self.bias: Any = self.create_parameter([outputs], bias_attr, is_bias=True)

    def forward(self, x: Any, output_size: Any = None) -> Any:
        window = dict(self._window)
        if output_size is not None:
            window["output_padding"] = 0
        return type(self).function(x, self.weight, self.bias, output_size=output_size, **window)


class Conv1DTranspose(_ConvTranspose):
    """The transpose of a convolution of sequences (paddle.nn.Conv1DTranspose)."""

    rank = 1
    function = staticmethod(functional.conv1d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        window = (stride, padding, output_padding, dilation, groups)
        attrs = (weight_attr, bias_attr, data_format)
        super().__init__(in_channels, out_channels, kernel_size, *window, *attrs)


@with_defaults(data_format="NCHW")
class Conv2DTranspose(_ConvTranspose):
    """The transpose of a convolution of images (paddle.nn.Conv2DTranspose)."""

    rank = 2
    function = staticmethod(functional.conv2d_transpose)


@with_defaults(data_format="NCDHW")
class Conv3DTranspose(_ConvTranspose):
    """The transpose of a convolution of volumes (paddle.nn.Conv3DTranspose)."""

    rank = 3
    function = staticmethod(functional.conv3d_transpose)


lazy.join_package(globals())
