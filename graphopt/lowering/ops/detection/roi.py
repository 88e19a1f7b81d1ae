"""Regions of images in JAX: rows and columns have weights of their own in every pool but one."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection.roi import PrroiPool, PsroiPool, RoiAlign, RoiPool
from graphopt.lowering.ops.base import Array, apart, constant, quotient, wide
from graphopt.lowering.registry import lowers


def images_of(x: Array, boxes: Array, boxes_num: Array) -> Array:
    """The image [r, c, h, w] of each box."""
    return jnp.take(x, _image_numbers(boxes_num, boxes.shape[0]), 0, mode="clip")


def _image_numbers(boxes_num: Array, count: int) -> Array:
    """The number of the image of each box."""
    ends = jnp.cumsum(boxes_num)
    return jnp.searchsorted(ends, jnp.arange(count, dtype=ends.dtype), side="right")


def _cells(low: Array, size: Array, count: int) -> tuple[Array, Array]:
    """Start and end of the cells [r, count] of boxes along one dimension.

    Each operation is rounded, as in Paddle: 7 sevenths of 3 pixels end at 3 exactly, where XLA
    would end in the next pixel by a product with 1 / 7, or one that it joins to the sum.
    """
    step = _side(size, count)[:, None]
    at = jnp.arange(count, dtype=low.dtype)
    return low[:, None] + apart(at * step), low[:, None] + apart((at + 1) * step)


def _side(size: Array, count: int) -> Array:
    """The side of a cell."""
    return quotient(size, constant(count, size.dtype))


def _weigh_pixels(images: Array, rows: Array, columns: Array) -> Array:
    """[r, c, h, w] with weights [r, p, h] of rows and [r, q, w] of columns: [r, c, p, q]."""
    return jnp.einsum("rph,rchw,rqw->rcpq", rows, images, columns)


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
    images = images_of(wide(x), boxes, boxes_num)
    weights: list[Array] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        low, size = corners[:, axis], corners[:, axis + 2] - corners[:, axis]
        size = size if aligned else jnp.maximum(size, 1)
        start, end = _cells(low, size, count)
        pixels = images.shape[3 - axis]
        if sampling_ratio > 0:
            parts = (np.arange(sampling_ratio) + 0.5) / sampling_ratio
            points = start[..., None] + (end - start)[..., None] * parts.astype(low.dtype)
            weights.append(_between_pixels(points, pixels).mean(2))
        else:
            weights.append(_adaptive_weights(start, end, jnp.ceil(_side(size, count)), pixels))
    return _weigh_pixels(images, *weights).astype(x.dtype)


def _adaptive_weights(start: Array, end: Array, count: Array, pixels: int) -> Array:
    """The mean weights [r, cells, pixels] of `count` [r] points in each cell of a box.

    Boxes may be as large as they like, so the points are visited one after the other. They are
    half a pixel apart or more, and those outside of the image weigh nothing.
    """
    each = jnp.maximum(count, 1)[:, None]
    first = jnp.clip(jnp.floor((-1 - start) / ((end - start) / each) - 0.5), 0, each)

    def visit(number: Array, total: Array) -> Array:
        place = first + number.astype(start.dtype)
        points = start + (end - start) * ((place + 0.5) / each)
        inside = (place < count[:, None])[..., None]
        return total + jnp.where(inside, _between_pixels(points, pixels), 0)

    most = jnp.minimum(jnp.max(count, initial=0), 2 * pixels + 6).astype("int32")
    total = lax.fori_loop(0, most, visit, jnp.zeros((*start.shape, pixels), start.dtype))
    return total / each[..., None]


def _between_pixels(points: Array, pixels: int) -> Array:
    """The weights [..., pixels] of the two pixels around points; one step outside is the edge."""
    outside = (points < -1) | (points > pixels)
    at = jnp.clip(points, 0, pixels - 1)[..., None]
    weights = jnp.maximum(1 - jnp.abs(at - jnp.arange(pixels, dtype=points.dtype)), 0)
    return jnp.where(outside[..., None], 0, weights)


def _cover_pixels(start: Array, end: Array, pixels: int) -> Array:
    """The pixels [r, count, pixels] in cells whose bounds are whole numbers."""
    at = jnp.arange(pixels, dtype=start.dtype)
    return (at >= start[..., None]) & (at < end[..., None])


def away_from_zero(x: Array) -> Array:
    """The nearest whole number, halves away from zero."""
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
    images = images_of(wide(x), boxes, boxes_num)
    masks: list[Array] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        low = corners[:, axis] * spatial_scale
        size = jnp.maximum((corners[:, axis + 2] + 1) * spatial_scale - low, 0.1)
        start, end = _cells(low, size, count)
        pixels = images.shape[3 - axis]
        masks.append(_cover_pixels(jnp.floor(start), jnp.ceil(end), pixels).astype(images.dtype))
    rows, columns = masks
    shape = (-1, output_channels, pooled_height, pooled_width, *images.shape[2:])
    total = jnp.einsum("rph,rcpqhw,rqw->rcpq", rows, images.reshape(shape), columns)
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
    corners, images = wide(boxes) * spatial_scale, images_of(wide(x), boxes, boxes_num)
    weights: list[Array] = []
    sizes: list[Array] = []
    for axis, count in ((1, pooled_height), (0, pooled_width)):
        size = jnp.maximum(corners[:, axis + 2] - corners[:, axis], 0)
        start, end = _cells(corners[:, axis], size, count)
        at = jnp.arange(images.shape[3 - axis], dtype=size.dtype)
        weights.append(_hat(end[..., None] - at) - _hat(start[..., None] - at))
        sizes.append(size / count)
    area = (sizes[0] * sizes[1])[:, None, None, None]
    found = _weigh_pixels(images, *weights)
    return jnp.where(area > 0, found / jnp.where(area > 0, area, 1), 0).astype(x.dtype)


def _hat(x: Array) -> Array:
    """The integral of max(0, 1 - |t|) up to x."""
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
    """The largest element of each cell [r, p, q], 0 for one without pixels.

    Pixels are visited one after the other, as many as the largest cell has: the first of all cells
    at once, the second of all, and so on. So no pixel is looked at for the cells that lack it.
    """
    none = jnp.asarray(-jnp.inf, x.dtype)
    number = _image_numbers(boxes_num, rows[0].shape[0])[:, None]
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
    """Bounds of cells as numbers of pixels; a box of NaN has none."""
    return jnp.where(jnp.isnan(bounds), 0, jnp.clip(bounds, 0, pixels)).astype("int32")


def _most(start: Array, end: Array) -> Array:
    """The number of pixels in the largest cell."""
    return jnp.max(end - start, initial=0)


def _largest_by_masks(
    x: Array, boxes_num: Array, rows: tuple[Array, Array], columns: tuple[Array, Array]
) -> Array:
    """As `_largest_in`, with a derivative: equal pixels share it."""
    images = jnp.take(x, _image_numbers(boxes_num, rows[0].shape[0]), 0, mode="clip")
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
