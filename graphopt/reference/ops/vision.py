"""Resizing, sampling and unfolding of images, and reordering of their pixels and channels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import vision as ops
from graphopt.reference.derivatives import linear
from graphopt.reference.ops.activation import between
from graphopt.reference.ops.conv import Ints, channels_back, channels_first, pads_of
from graphopt.reference.registry import rule
from graphopt.reference.sampling import pixels_at, read_between
from graphopt.reference.tape import Array, value_of

Single = np.float32


@rule(ops.Interpolate)
def interpolate(
    x: Array,
    like: Array | None,
    size: Sequence[int],
    scale: Sequence[float],
    single_scale: bool,
    spaced_by_size: bool,
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_layout: str,
) -> Array:
    layout = {3: "NDHWC", 4: "NHWC", 5: "NDHWC"}[x.ndim] if data_layout[-1] == "C" else ""
    x = channels_first(x, layout)
    sizes = x.shape[2:]
    size = size if like is None else channels_first(like, layout).shape[2:]
    wanted = ops.resized_sizes(sizes, size, scale, single_scale)
    scale = () if spaced_by_size else scale
    scales = tuple(scale) * (len(sizes) // max(len(scale), 1)) or (0.0,) * len(sizes)
    if wanted == sizes:
        return channels_back(x, layout)
    whole = x.dtype.kind != "f"
    for axis, (new, by) in enumerate(zip(wanted, scales, strict=True), 2):
        at = _positions(x.shape[axis], new, by, mode, align_corners, align_mode)
        x = _read(x, at, axis, mode)
    return channels_back(np.trunc(x) if whole else x, layout)


def _positions(
    old: int, new: int, scale: float, mode: str, align_corners: bool, align_mode: int
) -> Any:
    """Compute the position of each new pixel among the old ones; in float32, as in Paddle."""
    if new == 1:
        step = Single(0)
    elif align_corners:
        step = Single(Single(old - 1) / Single(new - 1))
    else:
        step = Single(1 / scale if scale > 0 else Single(old) / Single(new))
    pixels = np.arange(new, dtype=Single)
    if mode == "nearest":
        return np.floor(step * pixels + Single(0.5 if align_corners else 0.0))
    if not align_corners and (mode == "bicubic" or align_mode == 0):
        pixels = step * (pixels + Single(0.5)) - Single(0.5)
    else:
        pixels = step * pixels
    return pixels if mode == "bicubic" else np.maximum(pixels, Single(0))


def _read(x: Array, at: Any, axis: int, mode: str) -> Array:
    """Read the values at positions along an axis."""
    last = x.shape[axis] - 1
    low = np.floor(at).astype(np.int64)

    def pixel(places: Any) -> Array:
        return np.take(x, np.clip(places, 0, last), axis)

    if mode == "nearest":
        return pixel(low)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]

    def along(weights: Any) -> Any:
        return np.reshape(np.asarray(weights, x.dtype if x.dtype.kind == "f" else Single), shape)

    if mode != "bicubic":
        low = np.minimum(low, last)
        rest = along(at - low)
        return pixel(low) * (1 - rest) + pixel(low + 1) * rest
    rest = (at - low).astype(Single)
    total: Array = 0.0
    for step in range(-1, 3):
        total = total + pixel(low + step) * along(_cubic(np.abs(rest - step)))
    return total


def _cubic(distance: Any) -> Any:
    """Compute the weight at a distance: Keys' kernel with a = -0.75."""
    a, d = -0.75, distance
    inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
    outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


# Windows ----------------------------------------------------------------------------------------


def _positions_of_windows(
    sizes: Ints, kernel_sizes: Ints, strides: Ints, paddings: Ints, dilations: Ints
) -> tuple[list[tuple[int, int]], list[int], list[tuple[slice, ...]]]:
    """Compute the padding, the number of windows along both axes, and the slices of windows.

    For each place in a window, a slice selects the part of the padded image at this place of all
    windows.
    """
    if len(paddings) == 4:
        top, left, bottom, right = paddings
        pads = [(top, bottom), (left, right)]
    else:
        pads = pads_of(paddings, "EXPLICIT", sizes, kernel_sizes, strides)
    counts = [
        (size + sum(pad) - dilation * (kernel - 1) - 1) // stride + 1
        for size, pad, kernel, stride, dilation in zip(
            sizes, pads, kernel_sizes, strides, dilations, strict=True
        )
    ]
    parts = [
        tuple(
            slice(at * dilation, at * dilation + (count - 1) * stride + 1, stride)
            for at, dilation, count, stride in zip(place, dilations, counts, strides, strict=True)
        )
        for place in itertools.product(*map(range, kernel_sizes))
    ]
    return pads, counts, parts


@rule(ops.Unfold)
def unfold(x: Array, kernel_sizes: Ints, strides: Ints, paddings: Ints, dilations: Ints) -> Array:
    sizes = x.shape[2:]
    pads, counts, parts = _positions_of_windows(sizes, kernel_sizes, strides, paddings, dilations)

    def forward(images: Array) -> Array:
        padded = np.pad(images, [(0, 0), (0, 0), *pads])
        columns = np.stack([padded[(..., *part)] for part in parts], 2)
        return np.reshape(columns, (x.shape[0], x.shape[1] * len(parts), math.prod(counts)))

    def back(g: Array) -> Array:
        return fold(g, sizes, kernel_sizes, strides, paddings, dilations)

    return linear(x, forward, back)


@rule(ops.Fold)
def fold(
    x: Array,
    output_sizes: Ints,
    kernel_sizes: Ints,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
) -> Array:
    pads, counts, parts = _positions_of_windows(
        output_sizes, kernel_sizes, strides, paddings, dilations
    )
    channels = x.shape[1] // len(parts)

    def forward(columns: Array) -> Array:
        columns = np.reshape(columns, (x.shape[0], channels, len(parts), *counts))
        whole = [size + sum(pad) for size, pad in zip(output_sizes, pads, strict=True)]
        images = np.zeros((x.shape[0], channels, *whole), x.dtype)
        for number, part in enumerate(parts):
            images[(..., *part)] += columns[:, :, number]
        inner = [slice(a, a + size) for (a, _), size in zip(pads, output_sizes, strict=True)]
        return images[(..., *inner)]

    def back(g: Array) -> Array:
        return unfold(g, kernel_sizes, strides, paddings, dilations)

    return linear(x, forward, back)


# Sampling ---------------------------------------------------------------------------------------


def _reflect_positions(at: Array, size: int, align_corners: bool) -> Array:
    """Mirror positions at the centers of the outer pixels, or at their outer edges."""
    edge = 0.0 if align_corners else 0.5
    span = size - 1 + 2 * edge
    if not span:
        return at * 0.0
    far = np.abs(at + edge)
    far = far - np.floor(value_of(far) / (2 * span)) * (2 * span)
    return between(np.minimum(far, 2 * span - far) - edge, 0.0, size - 1.0)


@rule(ops.GridSample)
def grid_sample(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    places: list[Array] = []
    # the last coordinate of a point belongs to the first spatial axis
    for axis, size in enumerate(reversed(x.shape[2:])):
        share = grid[..., axis] + 1.0
        at = share * ((size - 1) / 2) if align_corners else (share * float(size) - 1.0) / 2.0
        if padding_mode == "border":
            at = between(at, 0.0, size - 1.0)
        elif padding_mode == "reflection":
            at = _reflect_positions(at, size, align_corners)
        places.insert(0, at)
    if mode == "nearest":
        found = pixels_at(np.moveaxis(x, 1, -1), [np.rint(value_of(at)) for at in places])
    else:
        found = read_between(x, places)
    return np.moveaxis(found, -1, 1)


@rule(ops.AffineGrid)
def affine_grid(theta: Array, output_shape: Ints, align_corners: bool) -> Array:
    sizes = output_shape[2:]
    # pixel centers between -1 and 1; with `align_corners`, the outer centers are -1 and 1
    lines = [
        np.linspace(-1, 1, size)
        if align_corners and size > 1
        else (2 * np.arange(size) + 1) / size - 1
        for size in sizes
    ]
    # from the last axis to the first, then 1
    points = [*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)]
    flat = np.reshape(np.stack(points, -1).astype(theta.dtype), (-1, len(points)))
    out = np.matmul(flat, np.swapaxes(theta, 1, 2))
    return np.reshape(out, (theta.shape[0], *sizes, len(sizes)))


# Permutations of pixels and channels ------------------------------------------------------------


@rule(ops.PixelShuffle)
def pixel_shuffle(x: Array, upscale_factor: int, data_format: str) -> Array:
    x, r = channels_first(x, data_format), upscale_factor
    n, channels, height, width = x.shape
    apart = np.reshape(x, (n, channels // (r * r), r, r, height, width))
    joined = np.transpose(apart, (0, 1, 4, 2, 5, 3))
    out = np.reshape(joined, (n, channels // (r * r), height * r, width * r))
    return channels_back(out, data_format)


@rule(ops.PixelUnshuffle)
def pixel_unshuffle(x: Array, downscale_factor: int, data_format: str) -> Array:
    x, r = channels_first(x, data_format), downscale_factor
    n, channels, height, width = x.shape
    apart = np.reshape(x, (n, channels, height // r, r, width // r, r))
    joined = np.transpose(apart, (0, 1, 3, 5, 2, 4))
    return channels_back(
        np.reshape(joined, (n, channels * r * r, height // r, width // r)), data_format
    )


@rule(ops.ChannelShuffle)
def channel_shuffle(x: Array, groups: int, data_format: str) -> Array:
    x = channels_first(x, data_format)
    n, channels, *sizes = x.shape
    apart = np.reshape(x, (n, groups, channels // groups, *sizes))
    return channels_back(np.reshape(np.swapaxes(apart, 1, 2), x.shape), data_format)


@rule(ops.SpaceToDepth)
def space_to_depth(x: Array, blocksize: int) -> Array:
    # Paddle's operator writes the pixels of a larger image with fewer channels, with the offset in
    # a block before the channel, and then reshapes it to a smaller image with more channels.
    n, channels, height, width = x.shape
    own = channels // (blocksize * blocksize)
    apart = np.reshape(x, (n, blocksize, blocksize, own, height, width))
    joined = np.transpose(apart, (0, 3, 4, 1, 5, 2))
    sizes = height // blocksize, width // blocksize
    return np.reshape(joined, (n, channels * blocksize * blocksize, *sizes))


@rule(ops.TemporalShift)
def temporal_shift(x: Array, seg_num: int, shift_ratio: float, data_format: str) -> Array:
    images = channels_first(x, data_format)
    frames = np.reshape(images, (images.shape[0] // seg_num, seg_num, *images.shape[1:]))
    channels = images.shape[1]
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    none = np.zeros_like(frames[:, :1])
    before = np.concatenate([none, frames[:, :-1]], 1)[:, :, :first]
    behind = np.concatenate([frames[:, 1:], none], 1)[:, :, first:second]
    shifted = np.concatenate([before, behind, frames[:, :, second:]], 2)
    return channels_back(np.reshape(shifted, images.shape), data_format)
