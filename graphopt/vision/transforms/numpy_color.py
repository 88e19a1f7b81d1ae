"""Colour spaces of arrays as OpenCV computes them."""

from __future__ import annotations

import numpy as np

from graphopt.frontend.images.image import Array

_SHARES = np.array([0.299, 0.587, 0.114])  # the weights of red, green and blue in gray
# The same weights in 15 bits, which OpenCV uses for integers.
_FIXED_SHARES = np.array([9798, 19235, 3735])


def grey(img: Array, order: str) -> Array:
    """Convert an image (H, W, 3) to gray (H, W) of the same dtype; `order` is RGB or BGR."""
    if img.ndim != 3 or img.shape[2] not in (3, 4):
        raise ValueError(f"expected an image of shape (H, W, 3), but received {img.shape}")
    step = 1 if order == "RGB" else -1
    channels = img[..., :3]
    if img.dtype.kind == "f":
        shares = _SHARES[::step].astype(img.dtype)
        first, second, third = (channels[..., k] * shares[k] for k in range(3))
        return first + second + third
    if img.dtype.name not in ("uint8", "uint16"):
        raise TypeError(f"an image of dtype {img.dtype} has no grey; convert it to uint8")
    total = channels.astype(np.int64) @ _FIXED_SHARES[::step]
    return ((total + (1 << 14)) >> 15).astype(img.dtype)


def bgr_to_hsv(img: Array) -> Array:
    """Convert to hue, saturation and value (H, W, 3), each in 0..255."""
    b, g, r = (img[..., k].astype(np.int64) for k in range(3))
    value = np.maximum(np.maximum(b, g), r)
    spread = value - np.minimum(np.minimum(b, g), r)
    by_value = _reciprocals(255)[value]
    by_spread = _reciprocals(256 / 6)[spread]
    saturation = (spread * by_value + (1 << 11)) >> 12
    sector = np.where(
        value == r, g - b, np.where(value == g, b - r + 2 * spread, r - g + 4 * spread)
    )
    hue = (sector * by_spread + (1 << 11)) >> 12
    hue = np.where(hue < 0, hue + 256, hue)
    return np.stack([hue, saturation, value], -1).clip(0, 255).astype(np.uint8)


def _reciprocals(scale: float) -> Array:
    """Compute scale / n with 12 fraction bits for n in 0..255, and 0 for n = 0."""
    numbers = np.arange(1, 256)
    return np.append(0, np.rint(scale * (1 << 12) / numbers)).astype(np.int64)


def hsv_to_bgr(img: Array) -> Array:
    """Invert `bgr_to_hsv`, up to rounding."""
    f = np.float32
    hue = img[..., 0].astype(f) * f(6 / 255)
    saturation, value = (img[..., k].astype(f) * f(1 / 255) for k in (1, 2))
    sector = np.floor(hue).astype(np.int64) % 6
    past = hue - np.floor(hue)
    one = f(1)
    levels = np.stack(
        [
            value,
            value * (one - saturation),
            value * (one - saturation * past),
            value * (one - saturation * (one - past)),
        ],
        -1,
    )
    # for each sector of the hue circle, the levels of blue, green and red
    places = np.array([[1, 3, 0], [1, 0, 2], [3, 0, 1], [0, 2, 1], [0, 1, 3], [2, 1, 0]])
    channels = np.take_along_axis(levels, places[sector], -1)
    return np.clip(np.rint(channels * f(255)), 0, 255).astype(np.uint8)
