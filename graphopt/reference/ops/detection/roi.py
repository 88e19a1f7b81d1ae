"""Pools over boxes of images, box by box: rows first, then columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from graphopt.ir.dialect.ops.detection import roi as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, NoDerivative, TapeNode, value_of


def each_box(x: Array, boxes: Array, boxes_num: Array) -> Iterator[tuple[Array, list[float]]]:
    """Yield each box with its image [c, h, w]."""
    images = np.repeat(np.arange(x.shape[0]), np.reshape(boxes_num, -1)).tolist()
    for image, box in zip(images, value_of(boxes).tolist(), strict=False):
        yield x[image], box


def _stack_regions(
    found: list[Array], x: Array, rows: int, columns: int, channels: int | None = None
) -> Array:
    if found:
        return np.stack(found)
    return np.zeros((0, x.shape[1] if channels is None else channels, rows, columns), x.dtype)


def round_half_away(number: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return int(math.copysign(abs(number) + 0.5, number))


def _between(image: Array, size: int, low: float, length: float, cells: int, ratio: int) -> Array:
    """Average the cells along the last axis of an image, which has `size` pixels."""
    points = ratio if ratio > 0 else max(math.ceil(length / cells), 0)
    steps = (np.arange(cells * points) + 0.5) / max(points, 1)
    at = low + steps * (length / cells)
    # interpolate linearly between pixels; points more than a pixel outside do not count
    near = np.clip(at, 0, size - 1)
    before = np.floor(near).astype(int)
    share = (near - before).astype(image.dtype)
    after = np.minimum(before + 1, size - 1)
    found = image[..., before] * (1 - share) + image[..., after] * share
    found = np.where((at >= -1) & (at <= size), found, np.zeros_like(share))
    parts = np.reshape(found, (*image.shape[:-1], cells, points))
    return np.sum(parts, -1) / np.asarray(max(points, 1), image.dtype)


@rule(ops.RoiAlign)
def roi_align(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Array:
    found: list[Array] = []
    for image, box in each_box(x, boxes, boxes_num):
        left, top, right, bottom = (side * spatial_scale - 0.5 * aligned for side in box)
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1), max(width, 1)
        across = _between(image, x.shape[3], left, width, pooled_width, sampling_ratio)
        turned = np.swapaxes(across, 1, 2)
        down = _between(turned, x.shape[2], top, height, pooled_height, sampling_ratio)
        found.append(np.swapaxes(down, 1, 2))
    return _stack_regions(found, x, pooled_height, pooled_width)


def _inside(size: int, ends: list[tuple[int, int]]) -> list[slice]:
    """Limit the ranges of pixels to the image."""
    return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in ends]


def _cells(size: int, low: float, high: float, cells: int) -> list[slice]:
    """Find the pixels of each cell along an axis."""
    first, last = round_half_away(low), round_half_away(high)
    length = max(last - first + 1, 1) / cells
    ends = [
        (first + math.floor(at * length), first + math.ceil((at + 1) * length))
        for at in range(cells)
    ]
    return _inside(size, ends)


@rule(ops.RoiPool)
def roi_pool(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Array:
    def largest(part: Array, axis: int) -> Array:
        none = np.zeros([d for i, d in enumerate(part.shape) if i != axis], x.dtype)
        return np.max(part, axis=axis) if part.shape[axis] else none

    found: list[Array] = []
    for image, box in each_box(x, boxes, boxes_num):
        left, top, right, bottom = (side * spatial_scale for side in box)
        rows = _cells(x.shape[2], top, bottom, pooled_height)
        columns = _cells(x.shape[3], left, right, pooled_width)
        across = np.stack([largest(image[:, row], 1) for row in rows], 1)
        found.append(np.stack([largest(across[:, :, column], 2) for column in columns], 2))
    return _stack_regions(found, x, pooled_height, pooled_width)


@rule(ops.PsroiPool)
def psroi_pool(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    output_channels: int,
) -> Array:
    def cells(size: int, low: float, high: float, count: int) -> list[slice]:
        start = round_half_away(low) * spatial_scale
        length = max((round_half_away(high) + 1) * spatial_scale - start, 0.1) / count
        ends = [
            (math.floor(start + i * length), math.ceil(start + (i + 1) * length))
            for i in range(count)
        ]
        return _inside(size, ends)

    found: list[Array] = []
    for image, (left, top, right, bottom) in each_box(x, boxes, boxes_num):
        own = np.reshape(image, (output_channels, pooled_height, pooled_width, *x.shape[2:]))
        rows = cells(x.shape[2], top, bottom, pooled_height)
        columns = cells(x.shape[3], left, right, pooled_width)
        means: list[Array] = []
        for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
            part = own[:, i, j, row, column]
            count = max(part.shape[1] * part.shape[2], 1)
            means.append(np.sum(part, axis=(1, 2)) / float(count))
        shape = output_channels, pooled_height, pooled_width
        found.append(np.reshape(np.stack(means, 1), shape))
    return _stack_regions(found, x, pooled_height, pooled_width, output_channels)


def _integrals(size: int, low: float, high: float, cells: int) -> Array:
    """Compute each pixel's share of the integral over each cell, divided by the cell length."""
    length = max(high - low, 0.0) / cells
    if not length:
        return np.zeros((cells, size))
    ends = low + np.arange(cells + 1)[:, None] * length - np.arange(size)
    # the integral of a pixel's weight, which falls from 1 at its center to 0 at both neighbors
    near = np.clip(ends, -1, 1)
    below = np.where(near < 0, (near + 1) ** 2 / 2, 1 - (1 - near) ** 2 / 2)
    return (below[1:] - below[:-1]) / length


@rule(ops.PrroiPool)
def prroi_pool(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Array:
    if isinstance(boxes, TapeNode):
        raise NoDerivative("prroi_pool with respect to boxes")
    found: list[Array] = []
    for image, box in each_box(x, boxes, boxes_num):
        left, top, right, bottom = (side * spatial_scale for side in box)
        rows = _integrals(x.shape[2], top, bottom, pooled_height).astype(x.dtype)
        columns = _integrals(x.shape[3], left, right, pooled_width).astype(x.dtype)
        found.append(np.matmul(np.matmul(rows, image), np.swapaxes(columns, 0, 1)))
    return _stack_regions(found, x, pooled_height, pooled_width)
