"""The transforms of arrays (H, W) or (H, W, C), with the numbers of OpenCV.

They use NumPy alone, so neither Pillow nor OpenCV is needed. Each takes checked arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from graphopt.frontend.images.image import Array
from graphopt.frontend.images.numpy_resize import resize as resize
from graphopt.vision.transforms import numpy_color, numpy_warp


def to_tensor(pic: Array, data_format: str) -> Array:
    """Convert an image to an array of this layout, dividing 8-bit values by 255."""
    if pic.ndim == 2:
        pic = pic[:, :, None]
    if data_format == "CHW":
        pic = pic.transpose(2, 0, 1)
    if pic.dtype == np.uint8:
        return np.ascontiguousarray(pic.astype(np.float32) / np.float32(255))
    return np.array(pic, order="C")


def pad(img: Array, sides: tuple[int, int, int, int], fill: Any, padding_mode: str) -> Array:
    """Pad by `sides` = (left, top, right, bottom) pixels."""
    left, top, right, bottom = sides
    widths = ((top, bottom), (left, right), (0, 0))[: img.ndim]
    if padding_mode != "constant":
        return np.pad(img, widths, cast(Any, padding_mode))
    if isinstance(fill, str):
        raise TypeError(f"pad: fill of an array should be numbers, but received {fill!r}")
    channels = img.shape[2] if img.ndim == 3 else 1
    value = numpy_warp.colour(fill, channels)
    shape = (img.shape[0] + top + bottom, img.shape[1] + left + right, *img.shape[2:])
    padded = np.empty(shape, img.dtype)
    padded[...] = value if img.ndim == 3 else value[0]
    padded[top : top + img.shape[0], left : left + img.shape[1]] = img
    return padded


def crop(img: Array, top: int, left: int, height: int, width: int) -> Array:
    """Cut out a box, as a view; parts outside the image are cut off."""
    return img[top : top + height, left : left + width]


def hflip(img: Array) -> Array:
    """Mirror left and right."""
    return np.ascontiguousarray(img[:, ::-1])


def vflip(img: Array) -> Array:
    """Mirror top and bottom."""
    return np.ascontiguousarray(img[::-1])


def _looked_up(img: Array, values: Array, function: str) -> Array:
    if img.dtype != np.uint8:
        raise TypeError(
            f"{function}: an array should have dtype uint8, but received {img.dtype}; convert it"
        )
    return values.clip(0, 255).astype(np.uint8)[img]


def adjust_brightness(img: Array, factor: float) -> Array:
    """Multiply each value by `factor`."""
    levels = np.arange(256)
    return _looked_up(img.astype(np.uint8), levels * factor, "adjust_brightness")


def adjust_contrast(img: Array, factor: float) -> Array:
    """Multiply each value's distance from 74 by `factor`."""
    return _looked_up(img, (np.arange(256) - 74) * factor + 74, "adjust_contrast")


def adjust_saturation(img: Array, factor: float) -> Array:
    """Blend an image with its gray version; channels are BGR.

    The image's weight is uniform between max(0, 1 - `factor`) and 1 + `factor`.
    """
    alpha = np.random.uniform(max(0, 1 - factor), 1 + factor)
    colours = img.astype(np.float32)
    grey = numpy_color.grey(colours, "BGR")[..., None]
    return (colours * alpha + grey * (1 - alpha)).clip(0, 255).astype(img.dtype)


def adjust_hue(img: Array, factor: float) -> Array:
    """Rotate the hue by `factor` of the circle (channels are BGR)."""
    if img.ndim != 3 or img.shape[2] != 3:
        raise ValueError(f"adjust_hue: expected shape (H, W, 3), but received {img.shape}")
    hsv = numpy_color.bgr_to_hsv(img.astype(np.uint8))
    hsv[..., 0] = (hsv[..., 0].astype(np.int32) + int(factor * 255)) % 256
    return numpy_color.hsv_to_bgr(hsv).astype(img.dtype)


def affine(
    img: Array,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    interpolation: str,
    fill: Any,
    center: Sequence[float],
) -> Array:
    """Rotate, scale, shear and move; `translate` replaces the shift of the rotation."""
    fill = (fill,) * 3 if isinstance(fill, int) else fill
    rotation = numpy_warp.rotation_matrix(center, angle, scale)
    across, down = (math.tan(math.radians(degrees)) for degrees in shear)
    matrix = np.array([rotation[0] + down * rotation[1], rotation[1] + across * rotation[0]])
    matrix[:, 2] = translate
    return numpy_warp.warp_affine(img, matrix, (img.shape[1], img.shape[0]), interpolation, fill)


def rotate(
    img: Array, angle: float, interpolation: str, expand: bool, center: Any, fill: Any
) -> Array:
    """Rotate counter-clockwise by `angle` degrees."""
    height, width = img.shape[:2]
    center = (width / 2.0, height / 2.0) if center is None else center
    matrix = numpy_warp.rotation_matrix(center, angle, 1.0)
    if expand:
        new_width, new_height = _extent(width, height, angle, center)
        matrix[:, 2] += (new_width - width) * 0.5, (new_height - height) * 0.5
        width, height = new_width, new_height
    return numpy_warp.warp_affine(img, matrix, (width, height), interpolation, fill)


def _extent(width: int, height: int, angle: float, center: Sequence[float]) -> tuple[int, int]:
    """Compute the size of the upright box around a rotated image."""
    radians = -math.radians(angle)
    # rounded, so that right angles give integer corners
    cosine, sine = round(math.cos(radians), 15), round(math.sin(radians), 15)
    corners = [
        (x - center[0], y - center[1])
        for x, y in ((0, 0), (width, 0), (width, height), (0, height))
    ]
    across = [cosine * x + sine * y + center[0] for x, y in corners]
    down = [cosine * y - sine * x + center[1] for x, y in corners]
    return (
        math.ceil(max(across)) - math.floor(min(across)),
        math.ceil(max(down)) - math.floor(min(down)),
    )


def perspective(
    img: Array, startpoints: Any, endpoints: Any, interpolation: str, fill: Any
) -> Array:
    """Warp an image by the projective map from four points to four others."""
    matrix = numpy_warp.perspective_matrix(startpoints, endpoints)
    return numpy_warp.warp_perspective(img, matrix, interpolation, fill)


def to_grayscale(img: Array, num_output_channels: int) -> Array:
    """Convert to gray (H, W, 1), or repeat it three times (channels are RGB)."""
    grey = numpy_color.grey(img, "RGB")[:, :, None]
    return grey if num_output_channels == 1 else np.broadcast_to(grey, img.shape)


def normalize(img: Any, mean: Any, std: Any, data_format: str, to_rgb: bool) -> Array:
    """Compute (img - mean) / std per channel."""
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    mean, std = (np.float32(np.array(values).reshape(shape)) for values in (mean, std))
    if to_rgb:
        img = img[..., ::-1]
    return (img - mean) / std


def erase(img: Array, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Array:
    """Overwrite a rectangle, in the image itself or in a copy."""
    result = img if inplace else img.copy()
    result[i : i + h, j : j + w, ...] = v
    return result
