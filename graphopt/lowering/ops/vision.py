"""Resizing, sampling and unfolding of images in JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.ops.conv import is_channels_last, spatial_sizes
from graphopt.ir.ops.vision import (
    AffineGrid,
    GridSample,
    Interpolate,
    Unfold,
    resized,
    unfold_pads,
)
from graphopt.lowering.ops.base import Array, wide, widened
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]
# for each output position: the input positions that count, and their weights
Taps = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


@lowers(Interpolate)
@widened
def interpolate(
    x: Array,
    like: Array | None,
    size: Ints,
    scale: tuple[float, ...],
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_layout: str,
) -> Array:
    sizes = spatial_sizes(x.shape, data_layout)
    size = size if like is None else spatial_sizes(like.shape, data_layout)
    first = 1 if is_channels_last(data_layout) else 2
    # sizes that are given decide the ratio as well
    scales: tuple[float, ...] = () if size else scale if len(scale) > 1 else scale * len(sizes)
    for at, (old, new) in enumerate(zip(sizes, resized(sizes, size, scale), strict=True)):
        ratio = _ratio(old, new, scales[at] if scales else 0, align_corners)
        taps = _taps(mode, old, new, ratio, align_corners, align_mode)
        parts = [
            jnp.take(x, index, first + at) * _along(weight.astype(x.dtype), x.ndim, first + at)
            for index, weight in taps
        ]
        x = sum(parts[1:], parts[0])
    return x


def _along(vector: np.ndarray[Any, Any], rank: int, axis: int) -> np.ndarray[Any, Any]:
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def _ratio(old: int, new: int, scale: float, align_corners: bool) -> np.float32:
    """How far apart the positions are in the old image; in float32, as Paddle computes it."""
    if align_corners:
        return np.float32(np.float32(old - 1) / np.float32(new - 1) if new > 1 else 0)
    return np.float32(1 / np.float32(scale) if scale > 0 else np.float32(old) / np.float32(new))


def _taps(
    mode: str, old: int, new: int, ratio: np.float32, align_corners: bool, align_mode: int
) -> Taps:
    position = np.arange(new, dtype=np.float32)
    if mode == "nearest":
        at = np.floor(ratio * position + np.float32(0.5 if align_corners else 0)).astype(int)
        return [(np.minimum(at, old - 1), np.ones(new))]
    half_pixels = not align_corners and (mode == "bicubic" or align_mode == 0)
    source = ratio * (position + np.float32(0.5)) - np.float32(0.5) if half_pixels else None
    source = ratio * position if source is None else source
    if mode == "bicubic":
        low = np.floor(source).astype(int)
        weights = _cubic(source - low)
        return [(np.clip(low + i - 1, 0, old - 1), w) for i, w in enumerate(weights)]
    source = np.maximum(source, 0)
    low = np.minimum(np.floor(source).astype(int), old - 1)
    after = source - low
    return [(low, 1 - after), (np.minimum(low + 1, old - 1), after)]


def _cubic(t: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Weights of the four neighbours, with the coefficient -0.75."""
    a = -0.75

    def near(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@lowers(Unfold)
def unfold(x: Array, kernel_sizes: Ints, strides: Ints, paddings: Ints, dilations: Ints) -> Array:
    zero = np.zeros((), x.dtype)
    pads = [(*pair, 0) for pair in unfold_pads(paddings, kernel_sizes)]
    x = lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *pads])
    places: list[np.ndarray[Any, Any]] = []
    for size, k, stride, d in zip(x.shape[2:], kernel_sizes, strides, dilations, strict=True):
        starts = np.arange(0, size - d * (k - 1), stride)
        places.append(np.arange(k)[:, None] * d + starts)
    rows, columns = places
    windows = jnp.take(jnp.take(x, columns, 3), rows, 2)  # n, c, kh, oh, kw, ow
    windows = windows.transpose(0, 1, 2, 4, 3, 5)
    n, c, kh, kw, oh, ow = windows.shape
    return windows.reshape(n, c * kh * kw, oh * ow)


@lowers(GridSample)
def grid_sample(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    images, points = wide(x), wide(grid)
    # the grid has columns before rows
    places = [
        _place(points[..., 1 - axis], images.shape[2 + axis], padding_mode, align_corners)
        for axis in range(2)
    ]
    if mode == "nearest":
        return _read(images, *(jnp.round(p) for p in places)).astype(x.dtype)
    rows, columns = (_neighbours(place) for place in places)
    corners = [
        _read(images, row, column) * (a * b)[:, None] for row, a in rows for column, b in columns
    ]
    return sum(corners[1:], corners[0]).astype(x.dtype)


def _place(points: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    """Points from -1 to 1 as positions in a dimension."""
    half = (size - 1) / 2 if align_corners else size / 2
    at = points * half + (size - 1) / 2
    if padding_mode == "reflection":
        at = _reflected(at, size, align_corners)
    return at if padding_mode == "zeros" else jnp.clip(at, 0, size - 1)


def _reflected(at: Array, size: int, align_corners: bool) -> Array:
    """Positions mirrored at the centres or at the edges of the outer pixels."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span <= 0:
        return jnp.zeros_like(at)
    distance = jnp.abs(at - low)
    turns = lax.stop_gradient(jnp.floor(distance / span))
    rest = distance - turns * span
    return jnp.where(turns % 2 == 0, rest, span - rest) + low


def _neighbours(place: Array) -> list[tuple[Array, Array]]:
    """The whole numbers around a position and their weights."""
    low = lax.stop_gradient(jnp.floor(place))
    after = place - low
    return [(low, 1 - after), (low + 1, after)]


def _read(images: Array, rows: Array, columns: Array) -> Array:
    """The pixels [n, c, h, w] at rows and columns [n, h, w], 0 outside."""
    height, width = images.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    row = jnp.clip(rows, 0, height - 1).astype(np.int32)
    column = jnp.clip(columns, 0, width - 1).astype(np.int32)
    flat = images.reshape(*images.shape[:2], -1)
    index = (row * width + column).reshape(row.shape[0], 1, -1)
    pixels = jnp.take_along_axis(flat, index, 2).reshape(*images.shape[:2], *rows.shape[1:])
    return jnp.where(inside[:, None], pixels, jnp.zeros((), pixels.dtype))


@lowers(AffineGrid)
def affine_grid(theta: Array, output_shape: Ints, align_corners: bool) -> Array:
    sizes = output_shape[2:]
    lines = [_line(size, align_corners) for size in sizes]
    grids = np.meshgrid(*lines, indexing="ij")
    # the last dimension comes first, and a one takes up the shift
    points = np.stack([*grids[::-1], np.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    placed = jnp.matmul(points.astype(theta.dtype), theta.mT)
    return placed.reshape(theta.shape[0], *sizes, len(sizes))


def _line(size: int, align_corners: bool) -> np.ndarray[Any, Any]:
    line = np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
    return line if align_corners else line * (size - 1) / size
