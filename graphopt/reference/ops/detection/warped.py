"""Regions of images that are no grid of pixels, point by point."""

from __future__ import annotations

import itertools
import math

import numpy as np

from graphopt.ir.dialect.ops.detection import warped as ops
from graphopt.reference.ops.detection.roi import each_box, round_half_away
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, value_of

Numbers = list[float]


def _sides(at: Array, size: int) -> list[tuple[int, Array]]:
    """Find the pixels on both sides of a point along an axis, and their shares."""
    value = float(value_of(at))
    if not 0 <= value <= size - 1:
        at = value = min(max(value, 0), size - 1)
    low = math.floor(value)
    return [(low, 1 - (at - low)), (math.ceil(value), at - low)]


def _is_near(at: Array, size: int) -> bool:
    """True within half a pixel of the image."""
    return -0.5 <= float(value_of(at)) <= size - 0.5


@rule(ops.DeformablePsroiPool)
def deformable_psroi_pooling(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    offsets: Array | None,
    spatial_scale: float,
    output_dim: int,
    group_size: tuple[int, ...],
    pooled_height: int,
    pooled_width: int,
    part_size: tuple[int, ...],
    sample_per_part: int,
    trans_std: float,
) -> tuple[Array, Array]:
    pooled = pooled_height, pooled_width
    classes = 1 if offsets is None else offsets.shape[1] // 2
    own = np.arange(output_dim).reshape(classes, -1)
    cells = list(itertools.product(range(classes), range(pooled_height), range(pooled_width)))
    found: list[Array] = []
    counts: list[int] = []
    for number, (image, box) in enumerate(each_box(x, boxes, boxes_num)):
        low = [round_half_away(side) * spatial_scale - 0.5 for side in box[:2]]
        high = [(round_half_away(side) + 1) * spatial_scale - 0.5 for side in box[2:]]
        size = [max(end - start, 0.1) for start, end in zip(low, high, strict=True)]
        for kind, *cell in cells:
            starts: list[Array] = []
            for axis in (0, 1):  # the row first; boxes have it second
                start = low[1 - axis] + cell[axis] * size[1 - axis] / pooled[axis]
                if offsets is not None:
                    parts = [
                        math.floor(np.divide(at, n, dtype=boxes.dtype) * many)
                        for at, n, many in zip(cell, pooled, part_size, strict=True)
                    ]
                    moved = offsets[number, 2 * kind + 1 - axis, parts[0], parts[1]]
                    start = start + moved * (trans_std * size[1 - axis])
                starts.append(start)
            group = [
                min(at * many // n, many - 1)
                for at, n, many in zip(cell, pooled, group_size, strict=True)
            ]
            channels = (own[kind] * group_size[0] + group[0]) * group_size[1] + group[1]
            total, count = np.zeros(len(channels)), 0
            for point in itertools.product(range(sample_per_part), repeat=2):
                at = [
                    starts[axis] + point[axis] * size[1 - axis] / pooled[axis] / sample_per_part
                    for axis in (0, 1)
                ]
                if all(map(_is_near, at, x.shape[2:])):
                    total, count = total + _between(image, channels, at), count + 1
            found.append(total / max(count, 1))
            counts += [count] * len(channels)
    shape = -1, classes, *pooled, output_dim // classes
    out = np.stack(found) if found else np.zeros((0, output_dim // classes), x.dtype)
    return _channels_first(out, shape), _channels_first(np.array(counts, np.int32), shape)


def _between(image: Array, channels: Array, at: list[Array]) -> Array:
    """Interpolate some channels of an image [c, h, w] at a point."""
    rows, columns = map(_sides, at, image.shape[1:])
    return sum(
        image[channels, row, column] * (down * across)
        for (row, down), (column, across) in itertools.product(rows, columns)
    )


def _channels_first(cells: Array, shape: tuple[int, ...]) -> Array:
    """Transpose and reshape [r, classes, h, w, c] to [r, classes * c, h, w]."""
    boxes = cells.size // math.prod(shape[1:])
    turned = np.transpose(np.reshape(cells, (boxes, *shape[1:])), (0, 1, 4, 2, 3))
    return np.reshape(turned, (boxes, shape[1] * shape[4], *shape[2:4]))


@rule(ops.RoiPerspectiveTransform)
def roi_perspective_transform(
    x: Array,
    rois: Array,
    boxes_num: Array,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float,
) -> tuple[Array, ...]:
    size = transformed_height, transformed_width
    found: list[Array] = []
    inside: list[bool] = []
    matrices: list[Numbers] = []
    for image, corners in each_box(x, rois, boxes_num):
        sides = [side * spatial_scale for side in corners]
        columns, rows = sides[::2], sides[1::2]
        m = _projection(columns, rows, *size)
        matrices.append(m)
        for j, i in itertools.product(range(size[0]), range(size[1])):
            depth = m[6] * i + m[7] * j + m[8]
            at = [(m[n] * i + m[n + 1] * j + m[n + 2]) / depth for n in (3, 0)]
            near = all(map(_is_near, at, x.shape[2:])) and _holds(columns, rows, at[1], at[0])
            inside.append(near)
            none = np.zeros(x.shape[1], x.dtype)
            found.append(_between(image, np.arange(x.shape[1]), at) if near else none)
    count = len(matrices)
    out = np.stack(found) if found else np.zeros((0, x.shape[1]), x.dtype)
    out = np.transpose(np.reshape(out, (count, *size, x.shape[1])), (0, 3, 1, 2))
    mask = np.reshape(np.array(inside, np.int32), (count, 1, *size))
    return out, mask, np.reshape(np.array(matrices, float), (count, 9))


def _projection(x: Numbers, y: Numbers, height: int, width: int) -> Numbers:
    """Compute the matrix, row by row, from pixels of a rectangle to pixels of a quadrangle."""
    sides = [math.hypot(x[n] - x[n - 1], y[n] - y[n - 1]) for n in (1, 2, 3, 0)]
    rows = max(2, height) - 1
    # in proportion to the quadrangle; its upper and lower sides are the first and the third
    columns = round_half_away((sides[0] + sides[2]) * rows / (sides[1] + sides[3])) + 1
    columns = max(2, min(columns, width)) - 1
    right = x[1] - x[2], y[1] - y[2]
    below = x[3] - x[2], y[3] - y[2]
    over = x[0] - x[1] + x[2] - x[3], y[0] - y[1] + y[2] - y[3]
    # Paddle's guard against flat quadrangles
    area = right[0] * below[1] - below[0] * right[1] + 1e-5
    tilt = (over[0] * below[1] - below[0] * over[1]) / area
    lean = (right[0] * over[1] - over[0] * right[1]) / area
    matrix: Numbers = []
    for along in (x, y):
        matrix.append((along[1] - along[0] + tilt * along[1]) / columns)
        matrix.append((along[3] - along[0] + lean * along[3]) / rows)
        matrix.append(along[0])
    return [*matrix, tilt / columns, lean / rows, 1.0]


def _holds(x: Numbers, y: Numbers, column: float, row: float) -> bool:
    """True for a point on the border of a quadrangle, or inside by an odd number of crossings."""
    nearly, crossings = 1e-4, 0
    for n in range(4):
        (ax, bx), (ay, by) = (x[n - 1], x[n]), (y[n - 1], y[n])
        if abs(ay - by) < nearly:
            low, high = min(ax, bx) - nearly, max(ax, bx) + nearly
            if abs(row - ay) < nearly and abs(row - by) < nearly and low < column < high:
                return True
            continue
        low, high = min(ay, by), max(ay, by)
        crossed = ax + (row - ay) * (bx - ax) / (by - ay)
        if abs(crossed - column) < nearly and low - nearly < row < high + nearly:
            return True
        crossings += low + nearly < row < high + nearly and crossed - column > nearly
    return crossings % 2 == 1
