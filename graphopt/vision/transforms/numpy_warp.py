"""Affine and projective maps of arrays as OpenCV computes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend.images.image import Array
from graphopt.frontend.images.numpy_sampling import check_sampled, sample

_BITS = 10  # the fraction bits of coordinates that an affine map adds up


def rotation_matrix(center: Sequence[float], angle: float, scale: float) -> Array:
    """Build the map (2, 3) that rotates counter-clockwise by `angle` degrees around `center`."""
    x, y = (float(np.float32(c)) for c in center)
    radians = angle * math.pi / 180
    a, b = math.cos(radians) * scale, math.sin(radians) * scale
    return np.array([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]])


def colour(fill: Any, channels: int) -> Array:
    """Expand a fill value to all channels; a number fills only the first, as in OpenCV."""
    values = [fill] if isinstance(fill, int | float) else list(fill)
    values = [*values, *([0] * channels)]
    return np.array(values[:channels])


def warp_affine(
    img: Array, matrix: Array, size: tuple[int, int], interpolation: str, fill: Any
) -> Array:
    """Warp an image by the map (2, 3) to `size` = (width, height)."""
    check_sampled(img, interpolation, "rotate")
    m = _invert(matrix)
    x, y = np.arange(size[0]), np.arange(size[1])
    scale = 1 << _BITS
    nearest = interpolation == "nearest"
    rounding = scale // 2 if nearest else scale // 64
    points = []
    for row in m:
        across = np.rint(row[0] * x * scale).astype(np.int64)
        down = np.rint((row[1] * y + row[2]) * scale).astype(np.int64) + rounding
        points.append((down[:, None] + across[None, :]) >> (_BITS if nearest else _BITS - 5))
    return _sample_image(img, points[0], points[1], interpolation, fill)


def _invert(matrix: Array) -> Array:
    (a, b, c), (d, e, f) = matrix
    determinant = a * e - b * d
    factor = 1 / determinant if determinant else 0.0
    a, e, b, d = e * factor, a * factor, -b * factor, -d * factor
    return np.array([[a, b, -a * c - b * f], [d, e, -d * c - e * f]])


def warp_perspective(img: Array, matrix: Array, interpolation: str, fill: Any) -> Array:
    """Warp an image by the projective map (3, 3), keeping its size."""
    check_sampled(img, interpolation, "perspective")
    m = np.linalg.inv(matrix)
    x, y = np.arange(img.shape[1])[None, :], np.arange(img.shape[0])[:, None]
    across, down, depth = (row[0] * x + row[1] * y + row[2] for row in m)
    steps = 1 if interpolation == "nearest" else 32
    factor = np.divide(steps, depth, out=np.zeros_like(depth), where=depth != 0)
    limit = np.iinfo(np.int32)
    points = [
        np.rint(np.clip(axis * factor, limit.min, limit.max)).astype(np.int64)
        for axis in (across, down)
    ]
    return _sample_image(img, points[0], points[1], interpolation, fill)


def perspective_matrix(startpoints: Any, endpoints: Any) -> Array:
    """Solve for the projective map (3, 3) that moves four points to four others."""
    source, target = (np.asarray(p, np.float32).astype(float) for p in (startpoints, endpoints))
    rows, values = [], []
    for axis in (0, 1):
        for (x, y), goal in zip(source, target[:, axis], strict=True):
            line = [x, y, 1, 0, 0, 0] if axis == 0 else [0, 0, 0, x, y, 1]
            rows.append([*line, -x * goal, -y * goal])
            values.append(goal)
    return np.append(np.linalg.solve(np.array(rows), np.array(values)), 1.0).reshape(3, 3)


def _sample_image(img: Array, x: Array, y: Array, interpolation: str, fill: Any) -> Array:
    kernel = "bilinear" if interpolation == "area" else interpolation
    channels = img[..., None] if img.ndim == 2 else img
    warped = sample(channels, x, y, kernel, colour(fill, channels.shape[2]))
    return warped[..., 0] if img.ndim == 2 else warped
