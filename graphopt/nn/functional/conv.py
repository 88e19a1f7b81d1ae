"""Convolutions."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
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
    """Cross-correlate images with filters (paddle.nn.functional.conv2d).

    x is [n, c, h, w] (or NHWC), `weight` [out, c / groups, kh, kw], `bias` [out]. `padding` is
    SAME, VALID, a number, 2 or 4 numbers, or a pair for each dimension. Raises ProgramError when
    the channels do not fit, ValueError for a padding or layout of another form.
    """
    attrs = _window("conv2d", ("NCHW", "NHWC"), stride, padding, dilation, groups, data_format)
    return convolve(LayerHelper(_operator(x, weight, attrs), name), x, weight, bias, attrs)


def conv3d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Cross-correlate volumes [n, c, d, h, w] with filters (paddle.nn.functional.conv3d).

    The arguments are as in `conv2d`, with one more dimension.
    """
    attrs = _window("conv3d", _VOLUMES, stride, padding, dilation, groups, data_format)
    helper = LayerHelper("conv3d", name)
    inputs = {"Input": arguments.variable(x, "x", "conv3d"), "Filter": weight}
    out = helper.emit("conv3d", inputs, attrs, out="Output")
    return _add_bias(helper, out, bias, data_format)


_VOLUMES = ("NCDHW", "NDHWC")


def _window(
    function: str,
    formats: tuple[str, str],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_format: str,
) -> dict[str, Any]:
    """Collect the attributes that convolutions and their transposes share."""
    last = is_channels_last(data_format, function, formats)
    spatial = len(data_format) - 2
    return {
        "strides": arguments.pair(stride, "stride", function, spatial),
        "dilations": arguments.pair(dilation, "dilation", function, spatial),
        "groups": arguments.integer(groups, "groups", function),
        "data_format": data_format,
        **padding_attrs(padding, spatial, last, function),
    }


def _add_bias(
    helper: LayerHelper, out: Variable, bias: Variable | None, data_format: str
) -> Variable:
    if bias is None:
        return out
    axis = 1 if data_format.startswith("NC") else len(data_format) - 1
    return helper.emit("elementwise_add", {"X": out, "Y": bias}, {"axis": axis})


def convolve(
    helper: LayerHelper,
    x: Any,
    weight: Variable,
    bias: Variable | None,
    attrs: dict[str, Any],
) -> Variable:
    """Emit the convolution operator for these attributes, and the bias."""
    type = _operator(x, weight, attrs)
    out = helper.emit(type, {"Input": x, "Filter": weight}, attrs, out="Output")
    return _add_bias(helper, out, bias, attrs["data_format"])


def _operator(x: Any, weight: Any, attrs: dict[str, Any]) -> str:
    """Choose the operator: a convolution with one group per channel has its own, for fusions."""
    arguments.variable(weight, "weight", "conv2d")
    channels = _channels(x, "conv2d", attrs)
    depthwise = channels == attrs["groups"] != 1 and weight.shape[0] % channels == 0
    return "depthwise_conv2d" if depthwise else "conv2d"


def _channels(x: Any, function: str, attrs: dict[str, Any]) -> int:
    shape = arguments.variable(x, "x", function).shape
    return shape[3 if attrs["data_format"] == "NHWC" else 1] if len(shape) == 4 else -1


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
    """Cross-correlate sequences with filters (paddle.nn.functional.conv1d).

    x is [n, c, l] (or NLC), `weight` [out, c / groups, k], `bias` [out]. It is computed as a
    convolution of images of height 1.
    """
    arguments.variable(x, "x", "conv1d")
    arguments.variable(weight, "weight", "conv1d")
    attrs = _flat("conv1d", stride, padding, dilation, groups, data_format)
    height = 1 if data_format == "NLC" else 2
    image, filters = unsqueeze(x, [height]), unsqueeze(weight, [2])
    # number the layer as Paddle does, so that later layers have the names in Paddle's checkpoints
    helper = LayerHelper("conv2d", name)
    return squeeze(convolve(helper, image, filters, bias, attrs), [height])


def _flat(
    function: str, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str
) -> dict[str, Any]:
    """Convert the attributes for sequences to attributes for images of height 1."""
    attrs = _window(function, ("NCL", "NLC"), stride, padding, dilation, groups, data_format)
    attrs["data_format"] = "NHWC" if data_format == "NLC" else "NCHW"
    for what, neutral in (("strides", [1]), ("dilations", [1])):
        attrs[what] = neutral + attrs[what]
    attrs["paddings"] = [0] * len(attrs["paddings"]) + attrs["paddings"]
    return attrs


def conv1d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """Apply the transpose of `conv1d`, weight [in, out / groups, k] (conv1d_transpose).

    Paddle page: paddle.nn.functional.conv1d_transpose.
    """
    arguments.variable(x, "x", "conv1d_transpose")
    arguments.variable(weight, "weight", "conv1d_transpose")
    attrs = _flat("conv1d_transpose", stride, padding, dilation, groups, data_format)
    sizes = _output_attrs("conv1d_transpose", output_padding, output_size, 1)
    attrs["output_padding"] = [0] * len(sizes["output_padding"]) + sizes["output_padding"]
    attrs["output_size"] = [1] * len(sizes["output_size"]) + sizes["output_size"]
    height = 1 if data_format == "NLC" else 2
    image, filters = unsqueeze(x, [height]), unsqueeze(weight, [2])
    helper = LayerHelper(_transposed_name(image, filters, attrs), name)
    return squeeze(_transpose(helper, image, filters, bias, attrs), [height])


def conv2d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Apply the transpose of `conv2d`, weight [in, out / groups, kh, kw] (conv2d_transpose).

    Several output sizes have one input size: `output_padding` adds to the least, `output_size`
    selects one. Raises ValueError when both are given, ProgramError when the size is impossible.
    Paddle page: paddle.nn.functional.conv2d_transpose.
    """
    function = "conv2d_transpose"
    attrs = _window(function, ("NCHW", "NHWC"), stride, padding, dilation, groups, data_format)
    attrs.update(_output_attrs(function, output_padding, output_size, 2))
    return _transpose(LayerHelper(_transposed_name(x, weight, attrs), name), x, weight, bias, attrs)


def conv3d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """Apply the transpose of `conv3d`; see `conv2d_transpose` (functional.conv3d_transpose)."""
    function = "conv3d_transpose"
    attrs = _window(function, _VOLUMES, stride, padding, dilation, groups, data_format)
    attrs.update(_output_attrs(function, output_padding, output_size, 3))
    return _transpose(LayerHelper(function, name), x, weight, bias, attrs)


def _output_attrs(function: str, padding: Any, size: Any, spatial: int) -> dict[str, list[int]]:
    extra = arguments.pair(padding, "output_padding", function, spatial)
    if size is None:
        return {"output_padding": extra if any(extra) else [], "output_size": []}
    if any(extra):
        raise ValueError(f"{function}(): give 'output_padding' or 'output_size', not both")
    sizes = arguments.pair(size, "output_size", function, spatial)
    return {"output_padding": [], "output_size": sizes}


def _transposed_name(x: Any, weight: Any, attrs: dict[str, Any]) -> str:
    """Return the name under which Paddle counts the transpose; depthwise has its own."""
    function = "conv2d_transpose"
    channels = _channels(x, function, attrs)
    filters = arguments.variable(weight, "weight", function).shape[1]
    return f"depthwise_{function}" if channels == attrs["groups"] != 1 == filters else function


def _transpose(
    helper: LayerHelper,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    attrs: dict[str, Any],
) -> Variable:
    data_format = attrs["data_format"]
    inputs = {"Input": arguments.variable(x, "x", helper.layer_type)}
    inputs["Filter"] = arguments.variable(weight, "weight", helper.layer_type)
    type = f"conv{len(data_format) - 2}d_transpose"
    out = helper.emit(type, inputs, attrs, out="Output")
    return _add_bias(helper, out, bias, data_format)


lazy.join_package(globals())
