"""Resizing of images: along one axis after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.vision import Interpolate, resized
from graphopt.reference.ops.conv import channels_back, channels_first
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

Single = np.float32


@rule(Interpolate)
def interpolate(
    x: Array,
    like: Array | None,
    size: Sequence[int],
    scale: Sequence[float],
    single_scale: bool,
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_layout: str,
) -> Array:
    layout = {3: "NDHWC", 4: "NHWC", 5: "NDHWC"}[x.ndim] if data_layout[-1] == "C" else ""
    x = channels_first(x, layout)
    sizes = x.shape[2:]
    size = size if like is None else channels_first(like, layout).shape[2:]
    wanted = resized(sizes, size, scale, single_scale)
    scales = tuple(scale) * (len(sizes) // max(len(scale), 1)) or (0.0,) * len(sizes)
    if wanted == sizes:
        return channels_back(x, layout)
    whole = x.dtype.kind != "f"
    for axis, (new, by) in enumerate(zip(wanted, scales, strict=True), 2):
        at = _positions(x.shape[axis], new, by, mode, align_corners, align_mode)
        x = _read(x, at, axis, mode)
    return channels_back(np.trunc(x) if whole else x, layout)


def _positions(
    old: int, new: int, scale: float, mode: str, align_corners: bool, align_mode: int
) -> Any:
    """The position of each new pixel among the old ones; in float32, as in Paddle."""
    if new == 1:
        step = Single(0)
    elif align_corners:
        step = Single(Single(old - 1) / Single(new - 1))
    else:
        step = Single(1 / scale if scale > 0 else Single(old) / Single(new))
    pixels = np.arange(new, dtype=Single)
    if mode == "nearest":
        return np.floor(step * pixels + Single(0.5 if align_corners else 0.0))
    if not align_corners and (mode == "bicubic" or align_mode == 0):
        pixels = step * (pixels + Single(0.5)) - Single(0.5)
    else:
        pixels = step * pixels
    return pixels if mode == "bicubic" else np.maximum(pixels, Single(0))


def _read(x: Array, at: Any, axis: int, mode: str) -> Array:
    """The values at positions along an axis."""
    last = x.shape[axis] - 1
    low = np.floor(at).astype(np.int64)

    def pixel(places: Any) -> Array:
        return np.take(x, np.clip(places, 0, last), axis)

    if mode == "nearest":
        return pixel(low)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]

    def along(weights: Any) -> Any:
        return np.reshape(np.asarray(weights, x.dtype if x.dtype.kind == "f" else Single), shape)

    if mode != "bicubic":
        low = np.minimum(low, last)
        rest = along(at - low)
        return pixel(low) * (1 - rest) + pixel(low + 1) * rest
    rest = (at - low).astype(Single)
    total: Array = 0.0
    for step in range(-1, 3):
        total = total + pixel(low + step) * along(_cubic(np.abs(rest - step)))
    return total


def _cubic(distance: Any) -> Any:
    """The weight at a distance: Keys' kernel with a = -0.75."""
    a, d = -0.75, distance
    inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
    outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))
