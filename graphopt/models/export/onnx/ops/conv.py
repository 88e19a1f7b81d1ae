"""Convolutions, their transposes, and deformed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.ir.dialect.ops import conv as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports

IntTuple = tuple[int, ...]


def channels_first(emit: Nodes, x: Value, data_format: str) -> Value:
    """Transpose images to ONNX's layout, with the channels after the batch."""
    rank = len(sizes_of(x))
    last = ops.is_channels_last(data_format)
    return emit.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if last else x


def channels_back(emit: Nodes, x: Value, data_format: str, rank: int) -> Value:
    """Transpose images from ONNX's layout to the op's."""
    last = ops.is_channels_last(data_format)
    return emit.transpose(x, [0, *range(2, rank), 1]) if last else x


def window_pads(
    paddings: Sequence[int],
    algorithm: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> dict[str, Any]:
    """Compute the padding attributes: numbers, or `auto_pad` if a size is open."""
    if algorithm == "SAME" and UNKNOWN in sizes:
        return {"auto_pad": "SAME_UPPER"}
    pads = ops.explicit_pads(paddings, algorithm, sizes, kernel, strides, (1,) * len(kernel))
    return {"pads": flat_pads(pads)}


def flat_pads(pads: Sequence[tuple[int, int]]) -> list[int]:
    """List all pads before, then all pads after."""
    return [*(before for before, _ in pads), *(after for _, after in pads)]


@exports(ops.Conv2d, ops.Conv3d, ops.DepthwiseConv2d)
def conv(
    emit: Nodes,
    input: Value,
    filter: Value,
    strides: IntTuple,
    paddings: IntTuple,
    padding_algorithm: str,
    dilations: IntTuple,
    groups: int,
    data_format: str,
    filter_format: str,
    fuse_relu_before_depthwise_conv: bool = False,
    bias: Value | None = None,
) -> Value:
    rank = len(sizes_of(input))
    kernel = ops.filter_sizes(sizes_of(filter), filter_format)[2:]
    if UNKNOWN in kernel:
        raise NotInOnnx("the size of the filter is known only when the model runs")
    if filter_format == "HWIO":
        filter = emit.transpose(filter, (3, 2, 0, 1))
    if fuse_relu_before_depthwise_conv:
        shape, input = input.shape, emit("Relu", input)
        input.shape = shape
    sizes = ops.spatial_sizes(sizes_of(input), data_format)
    images = channels_first(emit, input, data_format)
    out = emit(
        "Conv",
        images,
        filter,
        bias,
        kernel_shape=list(kernel),
        strides=list(strides),
        dilations=list(ops.used_dilations(dilations, padding_algorithm)),
        group=groups,
        **window_pads(paddings, padding_algorithm, sizes, kernel, strides),
    )
    return channels_back(emit, out, data_format, rank)


@exports(ops.Conv2dTranspose, ops.Conv3dTranspose)
def conv_transpose(
    emit: Nodes,
    input: Value,
    filter: Value,
    strides: IntTuple,
    paddings: IntTuple,
    padding_algorithm: str,
    dilations: IntTuple,
    groups: int,
    output_padding: IntTuple,
    output_size: IntTuple,
    data_format: str,
) -> Value:
    sizes, kernel = ops.spatial_sizes(sizes_of(input), data_format), sizes_of(filter)[2:]
    if UNKNOWN in kernel:
        raise NotInOnnx("the size of the filter is known only when the model runs")
    if UNKNOWN in sizes and (output_size or padding_algorithm == "SAME"):
        raise NotInOnnx("the input has an open size, and output_size is set or the padding is SAME")
    dilations = ops.used_dilations(dilations, padding_algorithm)
    pads = ops.explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, dilations)
    extra = list(output_padding) or [0] * len(sizes)
    if output_size:
        least = ops.transposed_sizes(sizes, kernel, strides, pads, dilations, (), ())
        extra = [want - size for want, size in zip(output_size, least, strict=True)]
    out = emit(
        "ConvTranspose",
        channels_first(emit, input, data_format),
        filter,
        kernel_shape=list(kernel),
        strides=list(strides),
        dilations=list(dilations),
        group=groups,
        pads=flat_pads(pads),
        output_padding=extra,
    )
    return channels_back(emit, out, data_format, len(kernel) + 2)


@exports(ops.DeformableConv)
def deformable_conv(
    emit: Nodes,
    x: Value,
    offset: Value,
    filter: Value,
    mask: Value | None,
    strides: IntTuple,
    paddings: IntTuple,
    dilations: IntTuple,
    deformable_groups: int,
    groups: int,
) -> Value:
    if UNKNOWN in sizes_of(filter)[2:]:
        raise NotInOnnx("the size of the filter is known only when the model runs")
    pads = ops.given_pads(paddings, len(strides))
    return emit(
        "DeformConv",
        *(x, filter, offset, None, mask),
        kernel_shape=list(sizes_of(filter)[2:]),
        strides=list(strides),
        dilations=list(dilations),
        group=groups,
        offset_group=deformable_groups,
        pads=flat_pads(pads),
    )
