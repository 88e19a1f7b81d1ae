"""Pooling over boxes, and deformable convolution (paddle.vision.ops)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Normal
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.nn.layer.layers import Layer


def _pool(
    function: str,
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float,
    name: str | None,
    **attrs: Any,
) -> Variable:
    inputs = {
        "X": arguments.variable(x, "x", function),
        "ROIs": arguments.variable(boxes, "boxes", function),
        "RoisNum": arguments.variable(boxes_num, "boxes_num", function),
    }
    height, width = arguments.pair(output_size, "output_size", function)
    scale = arguments.number(spatial_scale, "spatial_scale", function)
    size = {"pooled_height": height, "pooled_width": width, "spatial_scale": scale}
    return emit(function, inputs, {**size, **attrs}, name=name)


def roi_align(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    name: str | None = None,
) -> Variable:
    """Pool boxes [r, 4] of images [n, c, h, w] to [r, c, height, width], averaging sample points.

    `boxes_num` int32 [n] counts the boxes of each image. With `aligned` a pixel's value is at its
    center. Paddle page: paddle.vision.ops.roi_align.
    """
    function = "roi_align"
    attrs = {
        "sampling_ratio": arguments.integer(sampling_ratio, "sampling_ratio", function),
        "aligned": arguments.flag(aligned, "aligned", function),
    }
    return _pool(function, x, boxes, boxes_num, output_size, spatial_scale, name, **attrs)


def roi_pool(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Pool as `roi_align`, with the maximum pixel of each cell (paddle.vision.ops.roi_pool)."""
    return _pool("roi_pool", x, boxes, boxes_num, output_size, spatial_scale, name)


def psroi_pool(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Any,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Pool as `roi_align`, but average separate channels for each cell.

    x has height * width channels for each channel of the result; ValueError if its channels do not
    divide. Paddle page: paddle.vision.ops.psroi_pool.
    """
    function = "psroi_pool"
    cells = math.prod(arguments.pair(output_size, "output_size", function))
    channels = arguments.variable(x, "x", function).shape[1]
    if cells < 1 or channels < 1 or channels % cells:
        raise ValueError(
            f"{function}(): the {channels} channels of {list(x.shape)} must be known and divisible "
            f"by the {cells} cells of output_size={output_size}"
        )
    count = channels // cells
    return _pool(
        function, x, boxes, boxes_num, output_size, spatial_scale, name, output_channels=count
    )


class _Pool(Layer):
    """A pool as a layer, with its size and scale."""

    def __init__(self, output_size: Any, spatial_scale: float = 1.0) -> None:
        super().__init__()
        self._output_size = output_size
        self._spatial_scale = spatial_scale


class RoIAlign(_Pool):
    """`roi_align` as a layer (paddle.vision.ops.RoIAlign)."""

    def forward(
        self, x: Variable, boxes: Variable, boxes_num: Variable, aligned: bool = True
    ) -> Variable:
        size, scale = self._output_size, self._spatial_scale
        return roi_align(x, boxes, boxes_num, size, scale, aligned=aligned)


class RoIPool(_Pool):
    """`roi_pool` as a layer (paddle.vision.ops.RoIPool)."""

    def forward(self, x: Variable, boxes: Variable, boxes_num: Variable) -> Variable:
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


class PSRoIPool(_Pool):
    """`psroi_pool` as a layer (paddle.vision.ops.PSRoIPool)."""

    def forward(self, x: Variable, boxes: Variable, boxes_num: Variable) -> Variable:
        return psroi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


def deform_conv2d(
    x: Variable,
    offset: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Convolve x, reading each tap at an offset, and scaling it by `mask` if that is not None.

    For d `deformable_groups` and t taps, offsets are [n, 2 * d * t, h, w] and masks [n, d * t, h,
    w]; x, weight and bias have the shapes of `conv2d`.
    Paddle page: paddle.vision.ops.deform_conv2d.
    """
    function = "deform_conv2d"
    inputs = {
        "Input": arguments.variable(x, "x", function),
        "Offset": arguments.variable(offset, "offset", function),
        "Filter": arguments.variable(weight, "weight", function),
    }
    if mask is not None:
        inputs["Mask"] = arguments.variable(mask, "mask", function)
    attrs = {
        "strides": arguments.pair(stride, "stride", function),
        "paddings": arguments.pair(padding, "padding", function),
        "dilations": arguments.pair(dilation, "dilation", function),
        "groups": arguments.integer(groups, "groups", function),
        "deformable_groups": arguments.integer(deformable_groups, "deformable_groups", function),
        "im2col_step": 1,
    }
    type = "deformable_conv_v1" if mask is None else "deformable_conv"
    helper = LayerHelper("deformable_conv", name)
    made = helper.emit(type, inputs, attrs, out="Output")
    if bias is None:
        return made
    return helper.emit("elementwise_add", {"X": made, "Y": bias}, {"axis": 1})


class DeformConv2D(Layer):
    """`deform_conv2d` with a weight and a bias of its own (paddle.vision.ops.DeformConv2D)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        if in_channels % groups:
            raise ValueError(
                f"DeformConv2D(): in_channels={in_channels} must be divisible by groups={groups}"
            )
        kernel = arguments.pair(kernel_size, "kernel_size", "DeformConv2D")
        std = math.sqrt(2.0 / (math.prod(kernel) * in_channels))
        self.weight: Any = self.create_parameter(
            [out_channels, in_channels // groups, *kernel],
            attr=weight_attr,
            default_initializer=Normal(0.0, std),
        )
        self.bias = self.create_parameter([out_channels], attr=bias_attr, is_bias=True)
        self._options = {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "deformable_groups": deformable_groups,
            "groups": groups,
        }

    def forward(self, x: Variable, offset: Variable, mask: Variable | None = None) -> Variable:
        return deform_conv2d(x, offset, self.weight, self.bias, mask=mask, **self._options)
