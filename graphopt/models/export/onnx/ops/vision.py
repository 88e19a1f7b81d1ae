"""Resizing, sampling, unfolding and rearrangement of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import vision as ops
from graphopt.ir.dialect.ops.conv import is_channels_last, spatial_sizes
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import Ints, Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.ops.conv import channels_back, channels_first, flat_pads
from graphopt.models.export.onnx.registry import exports

IntTuple = tuple[int, ...]


@exports(ops.Interpolate, open=("size",))
def interpolate(
    emit: Nodes,
    x: Value,
    like: Value | None,
    size: Ints,
    scale: tuple[float, ...],
    single_scale: bool,
    spaced_by_size: bool,
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_layout: str,
) -> Value:
    rank = len(sizes_of(x))
    old = spatial_sizes(sizes_of(x), data_layout)
    scale = scale if all(by > 0 for by in scale) else ()
    scales = () if spaced_by_size else scale * len(old) if len(scale) == 1 else scale
    images = channels_first(emit, x, data_layout)
    if like is not None:
        first = 1 if is_channels_last(data_layout) else 2
        parts = [emit.size(like, first + at) for at in range(len(old))]
        wanted, spatial = spatial_sizes(sizes_of(like), data_layout), emit.join_sizes(parts)
    elif isinstance(size, Value):
        wanted, spatial = (UNKNOWN,) * len(old), emit.ints(size)
    else:
        wanted, spatial = ops.resized_sizes(old, size, scale, single_scale), None
    if wanted == tuple(old) and UNKNOWN not in old:
        return x
    by_size = _by_size(old, wanted, scales, align_corners)
    times = _times(old, wanted)
    if by_size and times:  # then the sizes of the other axes may be unknown
        by_size, scales = False, times
    attrs = _positions(mode, align_corners, align_mode, wanted)
    flat = len(old) == 1  # images without rows, which ONNX Runtime does not resize
    images = emit.unsqueeze(images, 2) if flat else images
    # ONNX Runtime multiplies sizes in float32, which is exact for these scales
    exact = single_scale or all(float(by * 16).is_integer() for by in scales)
    if not (by_size or exact) and UNKNOWN in old:
        raise NotInOnnx("the scale is not a multiple of 1 / 16, and an image size is open")
    if by_size:
        spatial = emit.ints(wanted) if spatial is None else spatial
        front = emit("Shape", images, start=0, end=3 if flat else 2)
        sizes = emit("Concat", front, spatial, axis=0)
        out = emit("Resize", images, None, None, sizes, **attrs)
    else:
        numbers = [1.0] * (3 if flat else 2) + list(scales)
        factors = emit.constant(np.asarray(numbers, np.float32))
        out = emit("Resize", images, None, factors, **attrs)
    out = emit.squeeze(out, 2) if flat else out
    return channels_back(emit, out, data_layout, rank)


def _times(old: Sequence[int], wanted: Sequence[int]) -> tuple[float, ...]:
    """Compute the integral growth factors of images; () if a factor is not a whole number."""
    if UNKNOWN in (*old, *wanted) or any(new % size for size, new in zip(old, wanted, strict=True)):
        return ()
    return tuple(float(new // size) for size, new in zip(old, wanted, strict=True))


def _by_size(
    old: Sequence[int], wanted: Sequence[int], scales: Sequence[float], align_corners: bool
) -> bool:
    """True if ONNX's Resize should derive the positions from sizes, not from scales.

    If Paddle has both, the scales determine the distance of the positions.
    """
    if not scales or align_corners:
        return not (scales and UNKNOWN in wanted)
    if UNKNOWN in (*old, *wanted):
        if UNKNOWN not in wanted:
            raise NotInOnnx("both size and scale are set, and an image size is open")
        return False
    spaced = all(
        new == 1 or math.isclose(new / size, scale, rel_tol=1e-6)
        for size, new, scale in zip(old, wanted, scales, strict=True)
    )
    made = [
        int(np.float32(size) * np.float32(scale)) for size, scale in zip(old, scales, strict=True)
    ]
    if not spaced and made != list(wanted):
        raise NotInOnnx("the scale contradicts the size")
    return spaced


def _positions(
    mode: str, align_corners: bool, align_mode: int, wanted: Sequence[int]
) -> dict[str, Any]:
    """Choose the Resize attributes that map new pixels to positions in the old images."""
    if mode == "nearest":
        if align_corners:
            return {
                "mode": "nearest",
                "coordinate_transformation_mode": "align_corners",
                "nearest_mode": "round_prefer_ceil",
            }
        return {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
    if align_corners:
        where = "align_corners"
    elif mode == "bicubic" or align_mode == 0:
        if mode == "bicubic" and 1 in wanted:
            raise NotInOnnx("a bicubic image has one row or column")
        where = "half_pixel" if mode == "bicubic" else "pytorch_half_pixel"
    else:
        where = "asymmetric"
    if mode == "bicubic":
        return {"mode": "cubic", "coordinate_transformation_mode": where, "cubic_coeff_a": -0.75}
    return {"mode": "linear", "coordinate_transformation_mode": where}


@exports(ops.GridSample, wide=True)
def grid_sample(
    emit: Nodes, x: Value, grid: Value, mode: str, padding_mode: str, align_corners: bool
) -> Value:
    name = "linear" if mode == "bilinear" else mode
    attrs = {"mode": name, "padding_mode": padding_mode, "align_corners": int(align_corners)}
    return emit("GridSample", x, grid, **attrs)


@exports(ops.AffineGrid, open=("output_shape",))
def affine_grid(emit: Nodes, theta: Value, output_shape: Ints, align_corners: bool) -> Value:
    if align_corners and not isinstance(output_shape, Value) and 1 in output_shape[2:]:
        raise NotInOnnx("the grid has one row or column, which ONNX places at the edge")
    sizes = emit.ints(output_shape)
    return emit("AffineGrid", theta, sizes, align_corners=int(align_corners))


@exports(ops.Unfold)
def unfold(
    emit: Nodes,
    x: Value,
    kernel_sizes: IntTuple,
    strides: IntTuple,
    paddings: IntTuple,
    dilations: IntTuple,
) -> Value:
    sizes = sizes_of(x)
    if UNKNOWN in sizes[1:]:
        raise NotInOnnx("an image size is open")
    pads = ops.unfold_pads(paddings, kernel_sizes)
    places: list[np.ndarray[Any, Any]] = []
    for size, k, stride, d, pad in zip(
        sizes[2:], kernel_sizes, strides, dilations, pads, strict=True
    ):
        starts = np.arange(0, size + sum(pad) - d * (k - 1), stride)
        places.append(np.arange(k)[:, None] * d + starts)
    rows, columns = places
    padded = emit("Pad", x, emit.ints([0, 0, pads[0][0], pads[1][0], 0, 0, pads[0][1], pads[1][1]]))
    wide = emit("Gather", padded, emit.constant(columns), axis=3)
    windows = emit("Gather", wide, emit.constant(rows), axis=2)
    order = emit.transpose(windows, (0, 1, 2, 4, 3, 5))
    count = rows.shape[1] * columns.shape[1]
    return emit.reshape(order, [0, sizes[1] * math.prod(kernel_sizes), count])


@exports(ops.Fold)
def fold(
    emit: Nodes,
    x: Value,
    output_sizes: IntTuple,
    kernel_sizes: IntTuple,
    strides: IntTuple,
    paddings: IntTuple,
    dilations: IntTuple,
) -> Value:
    return emit(
        "Col2Im",
        *(x, emit.ints(output_sizes), emit.ints(kernel_sizes)),
        strides=list(strides),
        dilations=list(dilations),
        pads=flat_pads(ops.unfold_pads(paddings, kernel_sizes)),
    )


@exports(ops.PixelShuffle)
def pixel_shuffle(emit: Nodes, x: Value, upscale_factor: int, data_format: str) -> Value:
    images = channels_first(emit, x, data_format)
    out = emit("DepthToSpace", images, blocksize=upscale_factor, mode="CRD")
    return channels_back(emit, out, data_format, 4)


@exports(ops.PixelUnshuffle)
def pixel_unshuffle(emit: Nodes, x: Value, downscale_factor: int, data_format: str) -> Value:
    r, last = downscale_factor, is_channels_last(data_format)
    rest = list(sizes_of(x)[1:])
    channels = rest.pop(-1 if last else 0)
    if UNKNOWN in (channels, *rest):
        raise NotInOnnx("an image size is open")
    h, w = rest
    images = channels_first(emit, x, data_format)
    apart = emit.reshape(images, [0, channels, h // r, r, w // r, r])
    order = emit.transpose(apart, (0, 1, 3, 5, 2, 4))
    out = emit.reshape(order, [0, channels * r * r, h // r, w // r])
    return channels_back(emit, out, data_format, 4)


@exports(ops.ChannelShuffle)
def channel_shuffle(emit: Nodes, x: Value, groups: int, data_format: str) -> Value:
    images = channels_first(emit, x, data_format)
    last = is_channels_last(data_format)
    height, width = (emit.size(x, axis) for axis in ((1, 2) if last else (2, 3)))
    channels = emit.size(x, 3 if last else 1)
    apart = emit.reshape(images, [0, groups, -1, height, width])
    mixed = emit.reshape(emit.transpose(apart, (0, 2, 1, 3, 4)), [0, channels, height, width])
    return channels_back(emit, mixed, data_format, 4)


@exports(ops.SpaceToDepth)
def space_to_depth(emit: Nodes, x: Value, blocksize: int) -> Value:
    c, h, w = sizes_of(x)[1:]
    if UNKNOWN in (c, h, w):
        raise NotInOnnx("an image size is open")
    b = blocksize
    apart = emit.reshape(x, [0, b, b, c // (b * b), h, w])
    # Paddle writes larger images with fewer channels, and then declares smaller ones with more
    order = emit.transpose(apart, (0, 3, 4, 1, 5, 2))
    return emit.reshape(order, [0, c * b * b, h // b, w // b])


@exports(ops.TemporalShift)
def temporal_shift(
    emit: Nodes, x: Value, seg_num: int, shift_ratio: float, data_format: str
) -> Value:
    """Shift the first channels from the previous frame, the second ones from the next frame."""
    images = channels_first(emit, x, data_format)
    last = is_channels_last(data_format)
    channels = sizes_of(x)[3 if last else 1]
    if channels == UNKNOWN:
        raise NotInOnnx("the number of channels is open")
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    sizes = [emit.size(x, axis) for axis in ((1, 2) if last else (2, 3))]
    videos = emit.reshape(images, [-1, seg_num, channels, *sizes])

    def part(low: int, high: int, pads: Sequence[int]) -> Value:
        """Slice channels, shifted by one frame of zeros before or after."""
        chosen = emit.cut(videos, [2], [low], [high])
        if not any(pads):
            return chosen
        begin, end = [0, pads[0], 0, 0, 0], [0, pads[1], 0, 0, 0]
        padded = emit("Pad", chosen, emit.ints([*begin, *end]))
        return emit.cut(padded, [1], [pads[1]], [pads[1] + seg_num])

    ranges = ((0, first, (1, 0)), (first, second, (0, 1)), (second, channels, (0, 0)))
    parts = [part(*each) for each in ranges if each[0] < each[1]]
    moved = emit("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    return channels_back(emit, emit.reshape(moved, [-1, channels, *sizes]), data_format, 4)
