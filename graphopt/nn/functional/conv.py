"""Convolutions."""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import LayerHelper
from graphopt.nn.functional.window import is_channels_last, padding_attrs
from graphopt.tensor.manipulation import squeeze, unsqueeze


def conv2d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Cross-correlation of images with filters (paddle.nn.functional.conv2d).

    x is [n, c, h, w] (or NHWC), `weight` [out, c / groups, kh, kw], `bias` [out]. `padding` is
    SAME, VALID, a number, 2 or 4 numbers, or a pair for each dimension. Raises ProgramError when
    the channels do not fit, ValueError for a padding or layout of another form.
    """
    last = is_channels_last(data_format, "conv2d", ("NCHW", "NHWC"))
    attrs = {
        "strides": arguments.pair(stride, "stride", "conv2d"),
        "dilations": arguments.pair(dilation, "dilation", "conv2d"),
        "groups": arguments.integer(groups, "groups", "conv2d"),
        "data_format": data_format,
        **padding_attrs(padding, 2, last, "conv2d"),
    }
    return convolve(LayerHelper("conv2d", name), x, weight, bias, attrs)


def convolve(
    helper: LayerHelper,
    x: Any,
    weight: Variable,
    bias: Variable | None,
    attrs: dict[str, Any],
) -> Variable:
    """The convolution operator for these attributes, and the bias."""
    shape = arguments.variable(x, "x", helper.layer_type).shape
    arguments.variable(weight, "weight", helper.layer_type)
    axis = 3 if attrs["data_format"] == "NHWC" else 1
    channels = shape[axis] if len(shape) == 4 else -1
    # one group per channel has an operator of its own, which fusions look for
    depthwise = channels == attrs["groups"] != 1 and weight.shape[0] % channels == 0
    type = "depthwise_conv2d" if depthwise else "conv2d"
    out = helper.emit(type, {"Input": x, "Filter": weight}, attrs, out="Output")
    if bias is None:
        return out
    return helper.emit("elementwise_add", {"X": out, "Y": bias}, {"axis": axis})


def conv1d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """Cross-correlation of sequences with filters (paddle.nn.functional.conv1d).

    x is [n, c, l] (or NLC), `weight` [out, c / groups, k], `bias` [out]. It is computed as a
    convolution of images of height 1.
    """
    last = is_channels_last(data_format, "conv1d", ("NCL", "NLC"))
    arguments.variable(x, "x", "conv1d")
    arguments.variable(weight, "weight", "conv1d")
    window = padding_attrs(padding, 1, last, "conv1d")
    attrs = {
        "strides": [1, *arguments.pair(stride, "stride", "conv1d", 1)],
        "dilations": [1, *arguments.pair(dilation, "dilation", "conv1d", 1)],
        "groups": arguments.integer(groups, "groups", "conv1d"),
        "data_format": "NHWC" if last else "NCHW",
        **window,
        "paddings": [*[0] * len(window["paddings"]), *window["paddings"]],
    }
    height = 1 if last else 2
    image, filters = unsqueeze(x, [height]), unsqueeze(weight, [2])
    return squeeze(convolve(LayerHelper("conv1d", name), image, filters, bias, attrs), [height])
