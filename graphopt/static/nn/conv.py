"""Convolutions, transposed ones too, that create their own parameters (paddle.static.nn)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Normal
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.ir.program import Variable
from graphopt.nn.functional.conv import convolve
from graphopt.nn.functional.window import is_channels_last, padding_attrs
from graphopt.static.nn.weights import weight as weight_of


def _channels(
    input: Any, function: str, groups: int | None, last: bool, spatial: int
) -> tuple[int, int]:
    """Return input channels and groups; raise ValueError unless the groups divide the channels.

    Raises ValueError also unless the input has `spatial` axes in addition to rows and channels.
    """
    shape = arguments.variable(input, "input", function).shape
    if len(shape) != spatial + 2:
        raise ValueError(
            f"{function}(): the input should have {spatial + 2} axes, found the shape {list(shape)}"
        )
    count = shape[-1 if last else 1]
    parts = 1 if groups is None else arguments.integer(groups, "groups", function)
    if count < 1 or parts < 1 or count % parts:
        raise ValueError(
            f"{function}(): the {count} channels of the input {list(shape)} must be known and "
            f"divisible by groups={parts}"
        )
    return count, parts


def _check_flag(use_cudnn: Any, function: str) -> None:
    if not isinstance(use_cudnn, bool):
        raise ValueError(f"{function}(): 'use_cudnn' should be True or False, found {use_cudnn!r}")


def _convolution(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int | None,
    param_attr: Any,
    bias_attr: Any,
    act: str | None,
    name: str | None,
    data_format: str,
) -> Variable:
    """Append a convolution over as many axes as the format has, a bias and an activation."""
    spatial = len(data_format) - 2
    function = f"conv{spatial}d"
    last = data_format[-1] == "C"
    channels, parts = _channels(input, function, groups, last, spatial)
    helper = LayerHelper(function, name)
    kernel = arguments.pair(filter_size, "filter_size", function, spatial)
    arguments.at_least(1, kernel, "filter_size", function)
    std = math.sqrt(2.0 / (math.prod(kernel) * channels))
    shape = [arguments.integer(num_filters, "num_filters", function), channels // parts, *kernel]
    weight = weight_of(
        helper,
        as_weight_attr(param_attr, function),
        shape,
        input.dtype,
        default_initializer=Normal(0.0, std),
    )
    attrs = {
        "strides": arguments.pair(stride, "stride", function, spatial),
        "dilations": arguments.pair(dilation, "dilation", function, spatial),
        "groups": parts,
        "data_format": data_format,
        **padding_attrs(padding, spatial, last, function),
    }
    if spatial == 2:
        out = convolve(helper, input, weight, None, attrs)
    else:
        out = helper.emit(function, {"Input": input, "Filter": weight}, attrs, out="Output")
    out = helper.append_bias(out, as_param_attr(bias_attr), shape[0], spatial + 1 if last else 1)
    return helper.append_activation(out, act)


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Convolve images with a filter and a bias of its own (paddle.static.nn.conv2d).

    The filter [num_filters, c / groups, kh, kw] starts normal with variance 2 / fan_in.
    `use_cudnn` has no effect. Raises ValueError when the channels are not known or not divisible.
    """
    _check_flag(use_cudnn, "conv2d")
    is_channels_last(data_format, "conv2d", ("NCHW", "NHWC"))
    window = (filter_size, stride, padding, dilation, groups)
    attrs = (param_attr, bias_attr, act, name, data_format)
    return _convolution(input, num_filters, *window, *attrs)


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """Convolve volumes with a filter and a bias of its own (paddle.static.nn.conv3d).

    The filter [num_filters, c / groups, kd, kh, kw] starts normal with variance 2 / fan_in.
    `use_cudnn` has no effect. Raises ValueError when the channels are not known or not divisible.
    """
    _check_flag(use_cudnn, "conv3d")
    is_channels_last(data_format, "conv3d", ("NCDHW", "NDHWC"))
    window = (filter_size, stride, padding, dilation, groups)
    attrs = (param_attr, bias_attr, act, name, data_format)
    return _convolution(input, num_filters, *window, *attrs)


def deform_conv2d(
    x: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Convolve with windows that sample at shifted positions (paddle.static.nn.deform_conv2d).

    `offset` [n, 2 * deformable_groups * kh * kw, h, w] alternates row and column offsets, `mask`
    [n, deformable_groups * kh * kw, h, w] has a weight for each. `im2col_step` has no effect.
    """
    function = "deform_conv2d"
    channels, parts = _channels(x, function, groups, False, 2)
    helper = LayerHelper("deformable_conv", name)
    kernel = arguments.pair(filter_size, "filter_size", function)
    arguments.at_least(1, kernel, "filter_size", function)
    shape = [arguments.integer(num_filters, "num_filters", function), channels // parts, *kernel]
    weight = weight_of(
        helper,
        as_weight_attr(weight_attr, function),
        shape,
        x.dtype,
        default_initializer=Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * channels))),
    )
    attrs = {
        "strides": arguments.pair(stride, "stride", function),
        "paddings": arguments.pair(padding, "padding", function),
        "dilations": arguments.pair(dilation, "dilation", function),
        "groups": parts,
        "deformable_groups": arguments.integer(deformable_groups, "deformable_groups", function),
        "im2col_step": im2col_step,
    }
    inputs = {"Input": x, "Filter": weight}
    inputs["Offset"] = arguments.variable(offset, "offset", function)
    if mask is not None:
        inputs["Mask"] = arguments.variable(mask, "mask", function)
    kind = "deformable_conv_v1" if mask is None else "deformable_conv"
    out = helper.emit(kind, inputs, attrs, out="Output")
    return helper.append_bias(out, as_param_attr(bias_attr), shape[0], 1)


def _transpose(
    function: str,
    input: Variable,
    num_filters: int,
    output_size: Any,
    filter_size: Any,
    window: tuple[Any, Any, Any],
    groups: int | None,
    attrs_given: tuple[Any, Any],
    act: str | None,
    name: str | None,
    data_format: str,
) -> Variable:
    spatial = len(data_format) - 2
    last = data_format.endswith("C")
    channels, parts = _channels(input, function, groups, last, spatial)
    count = arguments.integer(num_filters, "num_filters", function)
    if count < 1 or count % parts:
        raise ValueError(f"{function}(): num_filters {count} must be divisible by groups={parts}")
    padding, stride, dilation = window
    attrs = {
        "strides": arguments.pair(stride, "stride", function, spatial),
        "dilations": arguments.pair(dilation, "dilation", function, spatial),
        "groups": parts,
        "data_format": data_format,
        "output_padding": [],
        **padding_attrs(padding, spatial, last, function),
    }
    sizes = (
        [] if output_size is None else arguments.pair(output_size, "output_size", function, spatial)
    )
    attrs["output_size"] = sizes
    if filter_size is None:
        kernel = _kernel(function, input, sizes, attrs, last)
    else:
        kernel = arguments.pair(filter_size, "filter_size", function, spatial)
    helper = LayerHelper(function, name)
    attr = as_weight_attr(attrs_given[0], function)
    weight = weight_of(helper, attr, [channels, count // parts, *kernel], input.dtype)
    inputs = {"Input": input, "Filter": weight}
    out = helper.emit(function, inputs, attrs, out="Output")
    axis = spatial + 1 if last else 1
    out = helper.append_bias(out, as_param_attr(attrs_given[1]), count, axis)
    return helper.append_activation(out, act)


def _kernel(
    function: str, input: Variable, sizes: list[int], attrs: dict[str, Any], last: bool
) -> list[int]:
    """Compute the window that maps the input's sizes to the output's."""
    own = input.shape[1:-1] if last else input.shape[2:]
    if not sizes or -1 in own:
        raise ValueError(
            f"{function}(): filter_size is None; set filter_size, or output_size for an input of "
            "known sizes"
        )
    pads = attrs["paddings"]
    both = pads if len(pads) == 2 * len(own) else [p for p in pads for _ in range(2)]
    return [
        (size - (old - 1) * attrs["strides"][i] + both[2 * i] + both[2 * i + 1] - 1)
        // attrs["dilations"][i]
        + 1
        for i, (size, old) in enumerate(zip(sizes, own, strict=True))
    ]


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Apply the transpose of a convolution to images (paddle.static.nn.conv2d_transpose).

    The filter has the shape [c, num_filters / groups, kh, kw]; without `filter_size` it is derived
    from `output_size`. `use_cudnn` has no effect.
    """
    _check_flag(use_cudnn, "conv2d_transpose")
    is_channels_last(data_format, "conv2d_transpose", ("NCHW", "NHWC"))
    window, attrs = (padding, stride, dilation), (param_attr, bias_attr)
    given = (input, num_filters, output_size, filter_size, window, groups, attrs)
    return _transpose("conv2d_transpose", *given, act, name, data_format)


def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """Apply the transpose of a convolution to volumes; see `conv2d_transpose`.

    Paddle page: paddle.static.nn.conv3d_transpose.
    """
    _check_flag(use_cudnn, "conv3d_transpose")
    is_channels_last(data_format, "conv3d_transpose", ("NCDHW", "NDHWC"))
    window, attrs = (padding, stride, dilation), (param_attr, bias_attr)
    given = (input, num_filters, output_size, filter_size, window, groups, attrs)
    return _transpose("conv3d_transpose", *given, act, name, data_format)
