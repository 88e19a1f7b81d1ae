"""Pooling over boxes, and deformable convolutions (paddle.fluid.layers)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Normal
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.lengths import levels_of
from graphopt.static.nn.weights import weight as weight_of
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.manipulation import cast
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import subtract


def _numbers(function: str, input: Any, rois: Any, offsets: Any, counts: Any = None) -> Variable:
    """Compute the number of boxes of each image."""
    images = arguments.variable(input, "input", function).shape[0]
    arguments.variable(rois, "rois", function)
    if counts is not None:
        return cast(arguments.variable(counts, "rois_num", function), "int32")
    if offsets is not None:
        ends = arguments.variable(offsets, "rois_lod", function)
        last = ends.shape[0]
        return cast(
            subtract(slice_(ends, [0], [1], [last]), slice_(ends, [0], [0], [last - 1])), "int32"
        )
    if levels_of(rois):
        return cast(of_one_level(rois, function, "rois"), "int32")
    if images != 1:
        raise UnsupportedError(
            f"{function}(): the number of boxes in each of {images} images is unknown. Declare the "
            "feed of 'rois' with lod_level=1, or give 'rois_lod', a Variable with the start of the "
            "boxes of each image and the end of the last"
        )
    return cast(slice_(shape_of(rois), [0], [0], [1]), "int32")


def _pool(
    function: str,
    input: Any,
    rois: Any,
    numbers: Variable,
    size: tuple[int, int],
    scale: float,
    name: str | None,
    slot: str = "RoisNum",
    **attrs: Any,
) -> Variable:
    common = {
        "pooled_height": arguments.integer(size[0], "pooled_height", function),
        "pooled_width": arguments.integer(size[1], "pooled_width", function),
        "spatial_scale": arguments.number(scale, "spatial_scale", function),
    }
    inputs = {"X": input, "ROIs": rois, slot: numbers}
    return emit(function, inputs, {**common, **attrs}, name=name)


def roi_align(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    name: str | None = None,
    rois_lod: Variable | None = None,
    *,
    rois_num: Variable | None = None,
) -> Variable:
    """Pool boxes [r, 4] of images [n, c, h, w] to [r, c, pooled_height, pooled_width] by averages.

    Each cell is the average of sampling_ratio² points between pixels; without a `sampling_ratio`
    there is a point for each pixel of a cell's length, rounded up. `rois_lod` [n + 1] has the
    bounds of each image's boxes, `rois_num` [n] their counts; one image needs neither.
    Paddle page: fluid.layers.roi_align.
    """
    numbers = _numbers("roi_align", input, rois, rois_lod, rois_num)
    ratio = arguments.integer(sampling_ratio, "sampling_ratio", "roi_align")
    size = (pooled_height, pooled_width)
    attrs = {"sampling_ratio": ratio, "aligned": False}
    return _pool("roi_align", input, rois, numbers, size, spatial_scale, name, **attrs)


def roi_pool(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_lod: Variable | None = None,
    *,
    rois_num: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Pool as `roi_align`, by the maximum of the pixels in each cell (fluid.layers.roi_pool)."""
    numbers = _numbers("roi_pool", input, rois, rois_lod, rois_num)
    return _pool(
        "roi_pool", input, rois, numbers, (pooled_height, pooled_width), spatial_scale, name
    )


def prroi_pool(
    input: Variable,
    rois: Variable,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    batch_roi_nums: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Pool as `roi_align`, by the integral over each cell (fluid.layers.prroi_pool).

    `batch_roi_nums` [n] counts the boxes. Gradients flow to the boxes too.
    """
    function = "prroi_pool"
    if batch_roi_nums is None:
        numbers = _numbers(function, input, rois, None)
    else:
        numbers = arguments.variable(batch_roi_nums, "batch_roi_nums", function)
    size = (pooled_height, pooled_width)
    return _pool(function, input, rois, numbers, size, spatial_scale, name, "BatchRoINums")


def psroi_pool(
    input: Variable,
    rois: Variable,
    output_channels: int,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    name: str | None = None,
) -> Variable:
    """Pool as `roi_align`, by the average of each cell's own channels (fluid.layers.psroi_pool).

    The input has output_channels * pooled_height * pooled_width channels. It is one image, unless
    `rois` has lengths.
    """
    function = "psroi_pool"
    numbers = _numbers(function, input, rois, None)
    channels = arguments.integer(output_channels, "output_channels", function)
    size = (pooled_height, pooled_width)
    return _pool(
        function, input, rois, numbers, size, spatial_scale, name, output_channels=channels
    )


def deformable_conv(
    input: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    deformable_groups: int | None = None,
    im2col_step: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    modulated: bool = True,
    name: str | None = None,
) -> Variable:
    """Convolve, and read each tap at an offset, times a mask if `modulated`.

    For d groups of channels and t taps offsets are [n, 2 * d * t, h, w] and masks [n, d * t, h, w].
    `im2col_step` has no effect. Paddle page: fluid.layers.deformable_conv.
    """
    function = "deformable_conv"
    channels = arguments.variable(input, "input", function).shape[1]
    arguments.variable(offset, "offset", function)
    if modulated:
        arguments.variable(mask, "mask", function)
    helper = LayerHelper(function, name)
    parts = 1 if groups is None else arguments.integer(groups, "groups", function)
    kernel = arguments.pair(filter_size, "filter_size", function)
    if channels < 1 or parts < 1 or channels % parts:
        raise ValueError(
            f"{function}(): the {channels} channels of {list(input.shape)} must be known and "
            f"divisible by groups={parts}"
        )
    count = arguments.integer(num_filters, "num_filters", function)
    std = math.sqrt(2.0 / (kernel[0] * kernel[1] * channels))
    weight = weight_of(
        helper,
        as_weight_attr(param_attr, function),
        [count, channels // parts, *kernel],
        input.dtype,
        default_initializer=Normal(0.0, std),
    )
    attrs = {
        "strides": arguments.pair(stride, "stride", function),
        "paddings": arguments.pair(padding, "padding", function),
        "dilations": arguments.pair(dilation, "dilation", function),
        "groups": parts,
        "deformable_groups": 1
        if deformable_groups is None
        else arguments.integer(deformable_groups, "deformable_groups", function),
        "im2col_step": 1 if im2col_step is None else im2col_step,
    }
    inputs = {"Input": input, "Offset": offset, "Filter": weight}
    inputs |= {"Mask": mask} if modulated and mask is not None else {}
    type = "deformable_conv" if modulated else "deformable_conv_v1"
    out = helper.emit(type, inputs, attrs, out="Output")
    return helper.append_bias(out, as_param_attr(bias_attr), count, 1)


def deformable_roi_pooling(
    input: Variable,
    rois: Variable,
    trans: Variable,
    no_trans: bool = False,
    spatial_scale: float = 1.0,
    group_size: Any = (1, 1),
    pooled_height: int = 1,
    pooled_width: int = 1,
    part_size: Any = None,
    sample_per_part: int = 1,
    trans_std: float = 0.1,
    position_sensitive: bool = False,
    name: str | None = None,
) -> Variable:
    """Pool boxes [r, 4] of images [n, c, h, w] by averages of cells, each at its own offset.

    `trans` [r, 2 * classes, part_height, part_width] has the offsets in sizes of the box times
    `trans_std`; with `no_trans` there are none. With `position_sensitive` each cell of the grid has
    its own channels, and the result has c / pooled_height / pooled_width channels. Raises
    UnsupportedError where the number of boxes of each image is unknown. Paddle page:
    fluid.layers.deformable_roi_pooling.
    """
    function = "deformable_roi_pooling"
    numbers = _numbers(function, input, rois, None)
    size = [
        arguments.integer(pooled_height, "pooled_height", function),
        arguments.integer(pooled_width, "pooled_width", function),
    ]
    own = arguments.flag(position_sensitive, "position_sensitive", function)
    inputs = {"Input": input, "ROIs": rois, "RoisNum": numbers}
    inputs["Trans"] = arguments.variable(trans, "trans", function)
    attrs = {
        "no_trans": arguments.flag(no_trans, "no_trans", function),
        "spatial_scale": arguments.number(spatial_scale, "spatial_scale", function),
        "output_dim": input.shape[1] // (size[0] * size[1]) if own else input.shape[1],
        "group_size": arguments.pair(group_size, "group_size", function),
        "pooled_height": size[0],
        "pooled_width": size[1],
        "part_size": size
        if part_size is None
        else arguments.pair(part_size, "part_size", function),
        "sample_per_part": arguments.integer(sample_per_part, "sample_per_part", function),
        "trans_std": arguments.number(trans_std, "trans_std", function),
    }
    helper = LayerHelper("deformable_psroi_pooling", name)
    out, counts = helper.emit_all(helper.layer_type, inputs, attrs, ("Output", "TopCount"))
    counts.stop_gradient = True
    return out


def roi_perspective_transform(
    input: Variable,
    rois: Variable,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Warp quadrangles [r, 8] of images [n, c, h, w] to rectangles [r, c, height, width].

    The corners are in turn, from the upper left one on. Also returns a mask of the rectangle pixels
    inside the quadrangle and the image, int32 [r, 1, height, width], and the matrices [r, 9] from
    rectangle pixels to image pixels. Raises UnsupportedError where the number of quadrangles of
    each image is unknown. Paddle page: fluid.layers.roi_perspective_transform.
    """
    function = "roi_perspective_transform"
    inputs = {"X": input, "ROIs": rois, "RoisNum": _numbers(function, input, rois, None)}
    attrs = {
        "transformed_height": arguments.integer(transformed_height, "transformed_height", function),
        "transformed_width": arguments.integer(transformed_width, "transformed_width", function),
        "spatial_scale": arguments.number(spatial_scale, "spatial_scale", function),
    }
    helper = LayerHelper(function, name)
    out, mask, matrix = helper.emit_all(function, inputs, attrs, ("Out", "Mask", "TransformMatrix"))
    mask.stop_gradient = matrix.stop_gradient = True
    return out, mask, matrix
