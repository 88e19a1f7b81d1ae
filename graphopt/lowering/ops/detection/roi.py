"""Regions of images in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection.roi import PrroiPool, PsroiPool, RoiAlign, RoiPool
from graphopt.lowering.ops.base import Array, apart, constant, quotient, wide
from graphopt.lowering.registry import lowers

_COPIED = 2**24
"""The most image elements that are copied for boxes at a time."""


def image_numbers(boxes_num: Array, count: int) -> Array:
    """Find the image of each box."""
    ends = jnp.cumsum(boxes_num)
    return jnp.searchsorted(ends, jnp.arange(count, dtype=ends.dtype), side="right")


def _cells(low: Array, size: Array, count: int) -> tuple[Array, Array]:
    """Compute start and end of the cells [r, count] of boxes along one dimension.

    Each operation is rounded, as in Paddle: 7 sevenths of 3 pixels end at 3 exactly. XLA would end
    in the next pixel if it multiplied by 1 / 7, or fused the product into the sum.
    """
    step = _side(size, count)[:, None]
    at = jnp.arange(count, dtype=low.dtype)
    return low[:, None] + apart(at * step), low[:, None] + apart((at + 1) * step)


def _side(size: Array, count: int) -> Array:
    """Compute the side of a cell."""
    return quotient(size, constant(count, size.dtype))


def _weigh_pixels(form: str, x: Array, boxes_num: Array, weights: Sequence[Array]) -> Array:
    """Multiply each box's image by its weights [p, h] of rows, [q, w] of columns, as in `form`.

    Boxes of large images are taken in parts, so that their copies of images fit into memory.
    """

    def weigh(number: Array, rows: Array, columns: Array) -> Array:
        image = jnp.take(x, number, 0, mode="clip")
        return jnp.einsum(form, rows, image, columns)

    count = weights[0].shape[0]
    given = (image_numbers(boxes_num, count), *weights)
    at_once = _COPIED // max(prod(x.shape[1:]), 1) + 1
    if count <= at_once:
        return jax.vmap(weigh)(*given)
    return lax.map(lambda each: weigh(*each), given, batch_size=at_once)


@lowers(RoiAlign)
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
    corners = lax.stop_gradient(wide(boxes)) * spatial_scale - (0.5 if aligned else 0.0)
    axes: list[Points] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        low, size = corners[:, axis], corners[:, axis + 2] - corners[:, axis]
        size = size if aligned else jnp.maximum(size, 1)
        if sampling_ratio > 0:
            number, most = jnp.full(low.shape, sampling_ratio, low.dtype), sampling_ratio
        else:  # points are at least half a pixel apart, which limits those inside
            number, most = jnp.ceil(_side(size, count)), 2 * x.shape[3 - axis] + 6
        axes.append(
            (*_cells(low, size, count), number, jnp.minimum(jnp.max(number, initial=0), most))
        )
    pixels = wide(x).transpose(0, 2, 3, 1)
    total = _sum_points(pixels, image_numbers(boxes_num, boxes.shape[0]), *axes)
    rows, columns = (jnp.maximum(each[2], 1)[:, None, None, None] for each in axes)
    return (total / (rows * columns)).transpose(0, 3, 1, 2).astype(x.dtype)


Points: TypeAlias = tuple[Array, Array, Array, Array]
"""The sampling points in the cells of boxes along one axis.

It holds the starts and ends of cells [r, cells], the number of points of each box's cells [r], and
the number of points of a cell that are visited, one at a time: a box may have any size. Points
outside the image have weight 0.
"""


@jax.custom_vjp
def _sum_points(x: Array, image: Array, rows: Points, columns: Points) -> Array:
    """Sum images [n, h, w, c] at all points of each cell, [r, p, q, c]."""

    def add(total: Array, places: Array, weights: Array) -> Array:
        return total + weights[..., None] * jnp.take(flat, places, 0, mode="fill", fill_value=0)

    flat = x.reshape(-1, x.shape[3])
    shape = (image.size, rows[0].shape[1], columns[0].shape[1], x.shape[3])
    return _visit_points(add, jnp.zeros(shape, x.dtype), x.shape, image, rows, columns)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _spread_points(
    total: Array, image: Array, rows: Points, columns: Points, shape: tuple[int, ...]
) -> Array:
    """Compute the derivative of `_sum_points` by the images, of this shape."""

    def add(flat: Array, places: Array, weights: Array) -> Array:
        return flat.at[places].add(weights[..., None] * total)

    flat = jnp.zeros((prod(shape[:3]), shape[3]), total.dtype)
    return _visit_points(add, flat, shape, image, rows, columns).reshape(shape)


def _visit_points(
    add: Callable[[Array, Array, Array], Array],
    start: Array,
    shape: tuple[int, ...],
    image: Array,
    rows: Points,
    columns: Points,
) -> Array:
    """Call `add(result, places, weights)` for the four pixels around each point of the cells.

    Places [r, p, q] index the pixels of all images; points outside have an index past the last.
    """
    most_rows, most_columns = (most.astype("int32") for *_, most in (rows, columns))
    image = jnp.minimum(image, shape[0] - 1)

    def visit(step: Array, result: Array) -> Array:
        across = _pixels_around(columns, step % most_columns, shape[2])
        for row, row_weights in _pixels_around(rows, step // most_columns, shape[1]):
            line = (image[:, None] * shape[1] + row)[..., None]
            for column, weights in across:
                seen = (row >= 0)[..., None] & (column >= 0)[:, None]
                places = jnp.where(seen, line * shape[2] + column[:, None], prod(shape[:3]))
                result = add(result, places, row_weights[..., None] * weights[:, None])
        return result

    return lax.fori_loop(0, most_rows * most_columns, visit, start)


def _pixels_around(points: Points, step: Array, pixels: int) -> list[tuple[Array, Array]]:
    """Find the two pixels [r, cells] around a point of each cell, with their weights.

    They are -1 and 0 outside. Up to one step outside of the image, a point is at its edge.
    """
    start, end, count = points[0], points[1], points[2][:, None]
    each = jnp.maximum(count, 1)
    before = jnp.floor((-1 - start) / ((end - start) / each) - 0.5)
    first = jnp.where(end > start, jnp.clip(before, 0, each), 0)
    number = first + step.astype(start.dtype)
    at = start + (end - start) * ((number + 0.5) / each)
    inside = (number < count) & (at >= -1) & (at <= pixels)
    at = jnp.where(inside, jnp.clip(at, 0, pixels - 1), 0)
    low = jnp.floor(at)
    place, share = low.astype("int32"), at - low
    around = (place, 1 - share), (jnp.minimum(place + 1, pixels - 1), share)
    return [(jnp.where(inside, pixel, -1), jnp.where(inside, w, 0)) for pixel, w in around]


def _sum_forward(x: Array, image: Array, rows: Points, columns: Points) -> tuple[Array, Any]:
    return _sum_points(x, image, rows, columns), (x.shape, image, rows, columns)


def _sum_backward(saved: Any, cotangent: Array) -> tuple[Array | None, ...]:
    shape, *points = saved
    return _spread_points(cotangent, *points, shape), None, None, None


def _spread_forward(
    total: Array, image: Array, rows: Points, columns: Points, shape: tuple[int, ...]
) -> tuple[Array, Any]:
    return _spread_points(total, image, rows, columns, shape), (image, rows, columns)


def _spread_backward(shape: tuple[int, ...], saved: Any, cotangent: Array) -> Any:
    return _sum_points(cotangent, *saved), None, None, None


_sum_points.defvjp(_sum_forward, _sum_backward)
_spread_points.defvjp(_spread_forward, _spread_backward)


def _cover_pixels(start: Array, end: Array, pixels: int) -> Array:
    """Mark the pixels [r, count, pixels] in cells whose bounds are integers."""
    at = jnp.arange(pixels, dtype=start.dtype)
    return (at >= start[..., None]) & (at < end[..., None])


def away_from_zero(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    return jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5)


@lowers(PsroiPool)
def psroi_pool(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    output_channels: int,
) -> Array:
    corners = away_from_zero(lax.stop_gradient(wide(boxes)))
    images = wide(x)
    masks: list[Array] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        low = corners[:, axis] * spatial_scale
        size = jnp.maximum((corners[:, axis + 2] + 1) * spatial_scale - low, 0.1)
        start, end = _cells(low, size, count)
        pixels = images.shape[3 - axis]
        masks.append(_cover_pixels(jnp.floor(start), jnp.ceil(end), pixels).astype(images.dtype))
    rows, columns = masks
    shape = (-1, output_channels, pooled_height, pooled_width, *images.shape[2:])
    total = _weigh_pixels("ph,cpqhw,qw->cpq", images.reshape(shape), boxes_num, masks)
    area = rows.sum(2)[:, None, :, None] * columns.sum(2)[:, None, None]
    return (total / jnp.maximum(area, 1)).astype(x.dtype)


@lowers(PrroiPool)
def prroi_pool(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Array:
    corners, images = wide(boxes) * spatial_scale, wide(x)
    weights: list[Array] = []
    sizes: list[Array] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        size = jnp.maximum(corners[:, axis + 2] - corners[:, axis], 0)
        start, end = _cells(corners[:, axis], size, count)
        at = jnp.arange(images.shape[3 - axis], dtype=size.dtype)
        weights.append(_hat(end[..., None] - at) - _hat(start[..., None] - at))
        sizes.append(size / count)
    area = (sizes[0] * sizes[1])[:, None, None, None]
    found = _weigh_pixels("ph,chw,qw->cpq", images, boxes_num, weights)
    return jnp.where(area > 0, found / jnp.where(area > 0, area, 1), 0).astype(x.dtype)


def _hat(x: Array) -> Array:
    """Integrate max(0, 1 - |t|) up to x."""
    low, high = jnp.clip(x, -1, 0), jnp.clip(x, 0, 1)
    return 0.5 * lax.square(low + 1) + high - 0.5 * lax.square(high)


@lowers(RoiPool)
def roi_pool(
    x: Array,
    boxes: Array,
    boxes_num: Array,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Array:
    corners = away_from_zero(lax.stop_gradient(wide(boxes)) * spatial_scale)
    cells: list[tuple[Array, Array]] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        low = corners[:, axis]
        size = jnp.maximum(corners[:, axis + 2] - low + 1, 1)
        start, end = _cells(jnp.zeros_like(low), size, count)
        cells.append((jnp.floor(start) + low[:, None], jnp.ceil(end) + low[:, None]))
    return _largest_in(jnp.asarray(x), boxes_num, *cells)


@jax.custom_vjp
def _largest_in(
    x: Array, boxes_num: Array, rows: tuple[Array, Array], columns: tuple[Array, Array]
) -> Array:
    """Find the largest element of each cell [r, p, q]; 0 for a cell without pixels.

    Pixels are visited one after the other, as many as the largest cell has: the first of all cells
    at once, the second of all, and so on. So no pixel is read for the cells that lack it.
    """
    none = jnp.asarray(-jnp.inf, x.dtype)
    number = image_numbers(boxes_num, rows[0].shape[0])[:, None]
    low, high = (_whole(each, x.shape[2]) for each in rows)
    left, right = (_whole(each, x.shape[3]) for each in columns)

    def row(step: Array, best: Array) -> Array:
        at = low + step
        found = x[number, :, jnp.minimum(at, x.shape[2] - 1)]
        return jnp.where((at < high)[..., None, None], jnp.maximum(best, found), best)

    shape = (*low.shape, x.shape[1], x.shape[3])
    lines = lax.fori_loop(0, _most(low, high), row, jnp.full(shape, none))

    def column(step: Array, best: Array) -> Array:
        at = left + step
        places = jnp.minimum(at, x.shape[3] - 1)[:, None, None]
        found = jnp.take_along_axis(lines, places, 3)
        return jnp.where((at < right)[:, None, None], jnp.maximum(best, found), best)

    shape = (*low.shape, x.shape[1], left.shape[1])
    found = lax.fori_loop(0, _most(left, right), column, jnp.full(shape, none))
    some = (low < high)[:, None, :, None] & (left < right)[:, None, None]
    return jnp.where(some, found.transpose(0, 2, 1, 3), 0).astype(x.dtype)


def _whole(bounds: Array, pixels: int) -> Array:
    """Convert bounds of cells to pixel numbers; a box of NaN has none."""
    return jnp.where(jnp.isnan(bounds), 0, jnp.clip(bounds, 0, pixels)).astype("int32")


def _most(start: Array, end: Array) -> Array:
    """Count the pixels of the largest cell along one dimension."""
    return jnp.max(end - start, initial=0)


def _largest_by_masks(
    x: Array, boxes_num: Array, rows: tuple[Array, Array], columns: tuple[Array, Array]
) -> Array:
    """Compute `_largest_in` with a derivative: equal pixels share it."""
    images = jnp.take(x, image_numbers(boxes_num, rows[0].shape[0]), 0, mode="clip")
    inside = (_cover_pixels(*rows, x.shape[2]), _cover_pixels(*columns, x.shape[3]))
    none = jnp.asarray(-jnp.inf, x.dtype)
    lines = jnp.where(inside[1][:, None, None], images[:, :, :, None], none).max(4)
    found = jnp.where(inside[0][:, None, :, :, None], lines[:, :, None], none).max(3)
    some = inside[0].any(2)[:, None, :, None] & inside[1].any(2)[:, None, None]
    return jnp.where(some, found, 0).astype(x.dtype)


def _forward(x: Array, boxes_num: Array, rows: Any, columns: Any) -> tuple[Array, Any]:
    return _largest_in(x, boxes_num, rows, columns), (x, boxes_num, rows, columns)


def _backward(saved: Any, cotangent: Array) -> tuple[Array | None, ...]:
    x, *others = saved
    _, pullback = jax.vjp(lambda x: _largest_by_masks(x, *others), x)
    return (*pullback(cotangent), None, None, None)


_largest_in.defvjp(_forward, _backward)
