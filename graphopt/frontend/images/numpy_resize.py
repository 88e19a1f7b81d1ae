"""Resizing of arrays as `cv2.resize` does it.

Images of bytes agree to the last bit, except where OpenCV itself depends on the machine
("bicubic", some "area"): there values may differ by 1.
"""

from __future__ import annotations

import numpy as np

from graphopt.frontend.images.image import Array
from graphopt.frontend.images.numpy_sampling import check_sampled, kernel_weights, saturate

_COEFFICIENT = 2048  # weights for 8-bit images have 11 bits


def resize(img: Array, size: tuple[int, int], interpolation: str) -> Array:
    """Resize an image (H, W) or (H, W, C) to `size` = (height, width); keep the dtype.

    Raises KeyError for an unknown interpolation, TypeError for a dtype that OpenCV rejects,
    ValueError for a size or image without pixels.
    """
    check_sampled(img, interpolation, "resize")
    height, width = int(size[0]), int(size[1])
    if min(height, width, *img.shape) <= 0:
        raise ValueError(f"resize: cannot resize an image of shape {img.shape} to {size}")
    if img.shape[:2] == (height, width):
        return img.copy()
    if interpolation == "nearest":
        rows, columns = _nearest(img.shape[0], height), _nearest(img.shape[1], width)
        return img[rows][:, columns]
    scales = (img.shape[0] / height, img.shape[1] / width)
    if interpolation == "bilinear" and scales == (2.0, 2.0):
        interpolation = "area"
    if interpolation == "area" and min(scales) >= 1:
        return _area(img, (height, width), scales)
    return _separable(img, (height, width), interpolation)


def _nearest(length: int, new: int) -> Array:
    step = 1 / (new / length)
    return np.minimum(np.floor(np.arange(new) * step).astype(np.int64), length - 1)


def _positions(length: int, new: int, interpolation: str, clamp: bool) -> tuple[Array, Array]:
    """Compute the source pixel at or before each new pixel, and the distance from it.

    With `clamp` a position beyond the edge is moved onto it; without, its two pixels are equal.
    """
    scale = 1 / (new / length)
    if interpolation == "area":
        first = np.floor(np.arange(new) * scale).astype(np.int64)
        past = ((np.arange(new) + 1) - (first + 1) * (new / length)).astype(np.float32)
        past = np.where(past <= 0, np.float32(0), past - np.floor(past))
    else:
        exact = ((np.arange(new) + 0.5) * scale - 0.5).astype(np.float32)
        first = np.floor(exact).astype(np.int64)
        past = exact - first.astype(np.float32)
    if clamp and interpolation in ("area", "bilinear"):
        past = np.where((first < 0) | (first >= length - 1), np.float32(0), past)
        first = np.clip(first, 0, length - 1)
    return first, past


def _taps(length: int, new: int, interpolation: str, *, clamp: bool) -> tuple[Array, Array]:
    """Compute the indices and weights (new, k) of the source pixels of each new pixel."""
    first, past = _positions(length, new, interpolation, clamp)
    weights = kernel_weights(past, "bilinear" if interpolation == "area" else interpolation)
    size = weights.shape[1]
    indices = first[:, None] + np.arange(size) - (size // 2 - 1)
    return np.clip(indices, 0, length - 1), weights


def _separable(img: Array, size: tuple[int, int], interpolation: str) -> Array:
    """Interpolate along rows (horizontally) first, then along columns."""
    rows, down = _taps(img.shape[0], size[0], interpolation, clamp=False)
    columns, across = _taps(img.shape[1], size[1], interpolation, clamp=True)
    if img.dtype != np.uint8:
        kind = np.float64 if img.dtype == np.float64 else np.float32
        wide = _combine(img.astype(kind), columns, across.astype(kind), 1)
        return saturate(_combine(wide, rows, down.astype(kind), 0), img.dtype)
    across, down = (np.rint(w * np.float32(_COEFFICIENT)).astype(np.int64) for w in (across, down))
    wide = _combine(img.astype(np.int64), columns, across, 1)
    if down.shape[1] > 2:
        total = _combine(wide, rows, down, 0)
        return np.clip((total + (1 << 21)) >> 22, 0, 255).astype(np.uint8)
    above, below = ((wide[rows[:, k]] >> 4) * _along(down[:, k], wide, 0) >> 16 for k in (0, 1))
    return np.clip((above + below + 2) >> 2, 0, 255).astype(np.uint8)


def _along(weights: Array, like: Array, axis: int) -> Array:
    shape = [1] * like.ndim
    shape[axis] = -1
    return weights.reshape(shape)


def _combine(img: Array, indices: Array, weights: Array, axis: int) -> Array:
    taps = (
        np.take(img, indices[:, k], axis) * _along(weights[:, k], img, axis)
        for k in range(indices.shape[1])
    )
    total = next(taps)
    for tap in taps:
        total = total + tap
    return total


def _area(img: Array, size: tuple[int, int], scales: tuple[float, float]) -> Array:
    """Average over the area that each new pixel covers."""
    kind = np.float64 if img.dtype == np.float64 else np.float32
    if all(scale == int(scale) for scale in scales):
        return _blocks(img, size, (int(scales[0]), int(scales[1])))
    wide = img.astype(kind)
    for axis in (1, 0):
        cover = _coverage(img.shape[axis], size[axis], scales[axis]).astype(kind)
        wide = np.moveaxis(np.tensordot(cover, wide, (1, axis)), 0, axis)
    return saturate(wide, img.dtype)


def _blocks(img: Array, size: tuple[int, int], by: tuple[int, int]) -> Array:
    blocks = img.reshape(size[0], by[0], size[1], by[1], *img.shape[2:])
    if img.dtype.kind == "f":
        return blocks.mean((1, 3), dtype=img.dtype)
    total = blocks.sum((1, 3), dtype=np.int64)
    if by == (2, 2):
        return ((total + 2) >> 2).astype(img.dtype)
    return saturate(total.astype(np.float32) * np.float32(1 / (by[0] * by[1])), img.dtype)


def _coverage(length: int, new: int, scale: float) -> Array:
    """Compute the share of each source pixel (columns) in each new pixel (rows); rows sum to 1."""
    start = np.arange(new)[:, None] * scale
    stop = np.minimum(start + scale, length)
    pixel = np.arange(length)[None, :]
    overlap = np.clip(np.minimum(stop, pixel + 1) - np.maximum(start, pixel), 0, None)
    overlap[overlap < 1e-3] = 0
    return overlap / np.minimum(scale, length - start)
