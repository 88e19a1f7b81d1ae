"""Sampling of arrays between pixels with OpenCV's kernels, in its fixed-point arithmetic.

Images of bytes are computed in integers with weights of 11 or 15 bits, others in floating point,
so that results agree with `cv2.resize`, `cv2.warpAffine` and `cv2.warpPerspective`.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from graphopt.frontend.images.image import Array

# The element types that OpenCV resamples.
_SAMPLED = ("uint8", "uint16", "int16", "float32", "float64")
INTERPOLATIONS = ("nearest", "bilinear", "area", "bicubic", "lanczos")


def check_sampled(img: Array, interpolation: str, function: str) -> None:
    """Raise KeyError for an unknown interpolation, TypeError for a dtype without that kernel."""
    if interpolation not in INTERPOLATIONS:
        raise KeyError(
            f"{function}: interpolation of an array should be one of "
            f"{', '.join(INTERPOLATIONS)}, but received {interpolation!r}"
        )
    if img.dtype.name not in _SAMPLED:
        raise TypeError(
            f"{function}: an image of dtype {img.dtype} cannot be resampled; convert it to one of "
            f"{', '.join(_SAMPLED)}"
        )


def kernel_weights(fractions: Array, interpolation: str) -> Array:
    """Compute float32 weights of 2, 4 or 8 neighbors from the distances past a pixel."""
    x = fractions.astype(np.float32)
    one = np.float32(1)
    if interpolation == "bilinear":
        return np.stack([one - x, x], -1)
    if interpolation == "bicubic":
        a = np.float32(-0.75)
        first = ((a * (x + one) - 5 * a) * (x + one) + 8 * a) * (x + one) - 4 * a
        second = ((a + 2) * x - (a + 3)) * x * x + one
        third = ((a + 2) * (one - x) - (a + 3)) * (one - x) * (one - x) + one
        weights = [first, second, third, one - first - second - third]
        return np.stack(weights, -1).astype(np.float32)
    return _lanczos(x)


def _lanczos(x: Array) -> Array:
    half = math.sqrt(0.5)
    sines = np.array([1, -half, 0, half, -1, half, 0, -half])
    cosines = np.array([0, -half, 1, -half, 0, half, -1, half])
    start = -(x + np.float32(3)).astype(np.float64) * math.pi * 0.25
    steps = -(x[..., None] + np.float32(3) - np.arange(8, dtype=np.float32))
    angles = steps.astype(np.float64) * math.pi * 0.25
    on_pixel = x < np.finfo(np.float32).eps
    safe = np.where(angles == 0, 1.0, angles)
    weights = sines * np.sin(start)[..., None] + cosines * np.cos(start)[..., None]
    weights = (weights / (safe * safe)).astype(np.float32)
    weights = weights / weights.sum(-1, keepdims=True, dtype=np.float32)
    return np.where(on_pixel[..., None], np.eye(8, dtype=np.float32)[3], weights)


def saturate(values: Array, dtype: np.dtype) -> Array:
    """Round values (half to even) and clip them to the range of an integer dtype."""
    if dtype.kind == "f":
        return values.astype(dtype)
    bounds = np.iinfo(dtype)
    return np.clip(np.rint(values), bounds.min, bounds.max).astype(dtype)


_TABLE = 32  # the subpixel positions that warps distinguish
_ONE = 1 << 15


@cache
def _warp_weights(interpolation: str, exact: bool) -> Array:
    """Tabulate weights (32, 32, k, k) by the fractions of y and x; integers sum to 2**15."""
    line = kernel_weights(np.arange(_TABLE, dtype=np.float32) / np.float32(_TABLE), interpolation)
    table = line[:, None, :, None] * line[None, :, None, :]
    if not exact:
        return table
    fixed = np.clip(np.rint(table * np.float32(_ONE)), -_ONE, _ONE - 1).astype(np.int64)
    size = line.shape[-1]
    middle = size // 2
    for y in range(_TABLE):
        for x in range(_TABLE):
            _balance(fixed[y, x], middle, size)
    return fixed


def _balance(weights: Array, middle: int, size: int) -> None:
    """Adjust one of the middle weights so that the sum is 2**15, as OpenCV does."""
    excess = int(weights.sum()) - _ONE
    if not excess:
        return
    window = range(middle, min(middle + 2, size))
    spots = [(y, x) for y in window for x in window]
    spot = (
        max(spots, key=lambda s: weights[s]) if excess < 0 else min(spots, key=lambda s: weights[s])
    )
    weights[spot] -= excess


def sample(img: Array, x: Array, y: Array, interpolation: str, fill: Array) -> Array:
    """Sample an image (H, W, C) at points in units of 1/32 pixel; `fill` (C,) outside of it.

    With "nearest" the points are whole pixels.
    """
    if interpolation == "nearest":
        return _pixels(img, x, y, fill)
    weights = _warp_weights(interpolation, img.dtype == np.uint8)[y & 31, x & 31]
    size = weights.shape[-1]
    left, top = (x >> 5) - (size // 2 - 1), (y >> 5) - (size // 2 - 1)
    kind = np.int64 if img.dtype == np.uint8 else _accumulator(img.dtype)
    total = np.zeros((*x.shape, img.shape[2]), kind)
    for row in range(size):
        for column in range(size):
            pixels = _pixels(img, left + column, top + row, fill).astype(kind)
            total += pixels * weights[..., row, column, None].astype(kind)
    if img.dtype == np.uint8:
        return np.clip((total + (_ONE >> 1)) >> 15, 0, 255).astype(np.uint8)
    return saturate(total, img.dtype)


def _accumulator(dtype: np.dtype) -> type:
    return np.float64 if dtype == np.float64 else np.float32


def _pixels(img: Array, x: Array, y: Array, fill: Array) -> Array:
    height, width = img.shape[:2]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    found = img[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)]
    return np.where(inside[..., None], found, fill.astype(img.dtype))
