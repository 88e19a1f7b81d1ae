"""Regions of images that are no grid of pixels, in JAX: interpolation between four pixels."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection.warped import DeformablePsroiPool, RoiPerspectiveTransform
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.detection.roi import away_from_zero, image_numbers
from graphopt.lowering.registry import lowers


def _between(images: Array, numbers: Array, x: Array, y: Array) -> Array:
    """Interpolate the images [n, c, h, w] of `numbers` [r] at points [r, ...]; [r, c, ...]."""
    height, width = images.shape[2:]
    pixels = jnp.moveaxis(images, 1, -1).reshape(-1, images.shape[1])
    first = numbers.reshape(-1, *[1] * (x.ndim - 1)).astype(np.int64) * (height * width)
    total = jnp.zeros((), images.dtype)
    for column, across in _neighbours(x):
        for row, down in _neighbours(y):
            at = first + (row * width + column).astype(np.int64)
            total = total + jnp.take(pixels, at, 0, mode="clip") * (across * down)[..., None]
    return jnp.moveaxis(total, -1, 1)


def _neighbours(at: Array) -> list[tuple[Array, Array]]:
    """Find the pixels on both sides of points along an axis, and their shares.

    At a pixel both are that pixel: the slope of the value there is 0, as in Paddle.
    """
    fixed = lax.stop_gradient(at)
    after = at - jnp.floor(fixed)
    return [(jnp.floor(fixed), 1 - after), (jnp.ceil(fixed), after)]


@lowers(DeformablePsroiPool)
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
    pooled, points = (pooled_height, pooled_width), sample_per_part
    images, numbers = wide(x), image_numbers(boxes_num, len(boxes))
    corners = away_from_zero(lax.stop_gradient(wide(boxes))) * spatial_scale
    low = corners[:, :2] - 0.5
    size = jnp.maximum(corners[:, 2:] + spatial_scale - 0.5 - low, 0.1)
    cells = np.stack(np.meshgrid(*(np.arange(n) for n in pooled), indexing="ij"))
    moved = jnp.zeros((len(boxes), 1, 2, *pooled), low.dtype)
    if offsets is not None:
        # A rounded quotient, as in Paddle: it may be just below an integer.
        shares = [cells[axis].astype(low.dtype) / low.dtype.type(pooled[axis]) for axis in (0, 1)]
        parts = [np.floor(shares[axis] * part_size[axis]).astype(np.int64) for axis in (0, 1)]
        given = wide(offsets).reshape(len(boxes), -1, 2, *part_size) * trans_std
        moved = given[:, :, :, parts[0], parts[1]]
    places: list[Array] = []
    for axis in (0, 1):
        # boxes and offsets have the column first, cells the row
        wide_, start = size[:, axis, None, None, None], low[:, axis, None, None, None]
        cell = wide_ / pooled[1 - axis]
        first = cells[1 - axis] * cell + start + moved[:, :, axis] * wide_
        steps = np.arange(points).astype(low.dtype) * cell[..., None] / points
        places.append(first[..., None] + steps)
    classes = moved.shape[1]
    shape = (len(boxes), classes, *pooled, points, points)
    column = jnp.broadcast_to(places[0][..., None, :], shape)
    row = jnp.broadcast_to(places[1][..., :, None], shape)
    height, width = x.shape[2:]
    inside = (column >= -0.5) & (column <= width - 0.5) & (row >= -0.5) & (row <= height - 0.5)
    column, row = jnp.clip(column, 0, width - 1), jnp.clip(row, 0, height - 1)
    groups = [
        np.minimum(cells[axis] * group_size[axis] // pooled[axis], group_size[axis] - 1)
        for axis in (0, 1)
    ]
    number = groups[0] * group_size[1] + groups[1]
    count = inside.sum((4, 5))
    pooled_cells: list[Array] = []
    each = output_dim // classes
    for own in range(classes):
        channels = images[:, own * each * max(group_size[0] * group_size[1], 1) :]
        channels = channels[:, : each * group_size[0] * group_size[1]]
        values = _between(channels, numbers, column[:, own], row[:, own])
        values = jnp.where(inside[:, own, None], values, 0).sum((4, 5))
        values = values.reshape(len(boxes), each, -1, *pooled)
        at = jnp.broadcast_to(number, (len(boxes), each, 1, *pooled))
        pooled_cells.append(jnp.take_along_axis(values, at, 2)[:, :, 0])
    total = jnp.concatenate(pooled_cells, 1)
    many = jnp.repeat(count, each, 1)
    out = jnp.where(many > 0, total / jnp.maximum(many, 1).astype(total.dtype), 0)
    return out.astype(x.dtype), many.astype(np.int32)


@lowers(RoiPerspectiveTransform)
def roi_perspective_transform(
    x: Array,
    rois: Array,
    boxes_num: Array,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float,
) -> tuple[Array, ...]:
    size = transformed_height, transformed_width
    corners = lax.stop_gradient(wide(rois)).reshape(-1, 4, 2) * spatial_scale
    matrix = _projections(corners, *size)
    at = np.stack(np.meshgrid(*(np.arange(n) for n in size[::-1])))
    points = jnp.asarray(np.concatenate([at, np.ones((1, *size))]), matrix.dtype)
    column, row, depth = jnp.einsum("rik,khw->irhw", matrix.reshape(-1, 3, 3), points)
    column, row = column / depth, row / depth
    height, width = x.shape[2:]
    inside = (
        _in_quadrangle(column, row, corners)
        & ~((column < -0.5) | (column > width - 0.5))
        & ~((row < -0.5) | (row > height - 0.5))
    )
    column, row = jnp.clip(column, 0, width - 1), jnp.clip(row, 0, height - 1)
    numbers = image_numbers(boxes_num, len(rois))
    found = jnp.where(inside[:, None], _between(wide(x), numbers, column, row), 0)
    mask = inside[:, None].astype(np.int32)
    return found.astype(x.dtype), mask, matrix.astype(x.dtype)


def _projections(corners: Array, height: int, width: int) -> Array:
    """Compute the matrix [r, 9] that maps pixels of a rectangle to pixels of a quadrangle.

    A narrow quadrangle fills the left part of the rectangle only, so that its sides keep their
    proportion.
    """
    x, y = (jnp.moveaxis(corners[..., axis], 1, 0) for axis in (0, 1))
    sides = [jnp.hypot(x[n] - x[(n + 1) % 4], y[n] - y[(n + 1) % 4]) for n in range(4)]
    tall = (sides[1] + sides[3]) / 2
    broad = (sides[0] + sides[2]) / 2
    rows = max(2, height) - 1
    columns = jnp.clip(away_from_zero(broad * rows / tall) + 1, None, width)
    columns = jnp.maximum(columns, 2) - 1
    dx = [x[1] - x[2], x[3] - x[2], x[0] - x[1] + x[2] - x[3]]
    dy = [y[1] - y[2], y[3] - y[2], y[0] - y[1] + y[2] - y[3]]
    area = dx[0] * dy[1] - dx[1] * dy[0] + 1e-5
    tilt = (dx[2] * dy[1] - dx[1] * dy[2]) / area / columns
    lean = (dx[0] * dy[2] - dx[2] * dy[0]) / area / rows
    parts = [
        (x[1] - x[0] + tilt * columns * x[1]) / columns,
        (x[3] - x[0] + lean * rows * x[3]) / rows,
        x[0],
        (y[1] - y[0] + tilt * columns * y[1]) / columns,
        (y[3] - y[0] + lean * rows * y[3]) / rows,
        y[0],
        tilt,
        lean,
        jnp.ones_like(tilt),
    ]
    return jnp.stack(parts, 1)


def _in_quadrangle(column: Array, row: Array, corners: Array) -> Array:
    """Find the points [r, h, w] on a quadrangle's border, or inside by the parity of crossings."""
    nearly = 1e-4
    on_border = jnp.zeros(column.shape, bool)
    crossings = jnp.zeros(column.shape, np.int32)
    for number in range(4):
        (ax, ay), (bx, by) = (
            (corners[:, n % 4, 0, None, None], corners[:, n % 4, 1, None, None])
            for n in (number, number + 1)
        )
        flat = jnp.abs(ay - by) < nearly
        low, high = jnp.minimum(ay, by), jnp.maximum(ay, by)
        left, right = jnp.minimum(ax, bx), jnp.maximum(ax, bx)
        along = (column > left - nearly) & (column < right + nearly)
        crossed = (row - ay) * (bx - ax) / jnp.where(flat, 1, by - ay) + ax
        on_border |= jnp.where(
            flat,
            (jnp.abs(row - ay) < nearly) & (jnp.abs(row - by) < nearly) & along,
            (jnp.abs(crossed - column) < nearly) & (row > low - nearly) & (row < high + nearly),
        )
        passes = (row > low + nearly) & (row < high + nearly) & (crossed > column + nearly)
        crossings += (~flat & passes).astype(np.int32)
    return on_border | (crossings % 2 == 1)
