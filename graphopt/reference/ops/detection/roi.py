"""Pools over boxes of images, box by box: rows first, then columns."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from graphopt.ir.dialect.ops.detection import roi as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, value_of


def _each_box(x: Array, boxes: Array, boxes_num: Array) -> Iterator[tuple[Array, list[float]]]:
    """Each box with its image [c, h, w]."""
    images = np.repeat(np.arange(x.shape[0]), np.reshape(boxes_num, -1)).tolist()
    for image, box in zip(images, value_of(boxes).tolist(), strict=False):
        yield x[image], box


def _stacked(found: list[Array], x: Array, rows: int, columns: int) -> Array:
    return np.stack(found) if found else np.zeros((0, x.shape[1], rows, columns), x.dtype)


def _weights(size: int, low: float, length: float, cells: int, ratio: int) -> Array:
    """The share that each of `size` pixels has in the average of each cell along an axis."""
    points = ratio if ratio > 0 else max(math.ceil(length / cells), 0)
    steps = (np.arange(cells * points) + 0.5) / max(points, 1)
    at = low + steps * (length / cells)
    # between two pixels the nearer one counts more; points a pixel outside or more do not count
    near = np.clip(at, 0, size - 1)[:, None]
    share = np.maximum(1 - np.abs(near - np.arange(size)), 0)
    share *= ((at >= -1) & (at <= size))[:, None]
    return np.sum(np.reshape(share, (cells, points, size)), 1) / max(points, 1)


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
    for image, box in _each_box(x, boxes, boxes_num):
        left, top, right, bottom = (side * spatial_scale - 0.5 * aligned for side in box)
        least = 0 if aligned else 1
        height, width = max(bottom - top, least), max(right - left, least)
        rows = _weights(x.shape[2], top, height, pooled_height, sampling_ratio)
        columns = _weights(x.shape[3], left, width, pooled_width, sampling_ratio)
        across = np.matmul(rows.astype(x.dtype), image)
        found.append(np.matmul(across, np.swapaxes(columns.astype(x.dtype), 0, 1)))
    return _stacked(found, x, pooled_height, pooled_width)


def _cells(size: int, low: float, high: float, cells: int) -> list[slice]:
    """The pixels of each cell along an axis."""
    first, last = (int(math.copysign(abs(side) + 0.5, side)) for side in (low, high))
    length = max(last - first + 1, 1) / cells
    ends = [
        (first + math.floor(at * length), first + math.ceil((at + 1) * length))
        for at in range(cells)
    ]
    return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in ends]


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
    for image, box in _each_box(x, boxes, boxes_num):
        left, top, right, bottom = (side * spatial_scale for side in box)
        rows = _cells(x.shape[2], top, bottom, pooled_height)
        columns = _cells(x.shape[3], left, right, pooled_width)
        across = np.stack([largest(image[:, row], 1) for row in rows], 1)
        found.append(np.stack([largest(across[:, :, column], 2) for column in columns], 2))
    return _stacked(found, x, pooled_height, pooled_width)
