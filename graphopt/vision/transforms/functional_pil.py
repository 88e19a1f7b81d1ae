"""The transforms of Pillow images; Pillow does the work. Each takes checked arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from graphopt.frontend.images.image import Array, pillow

# Pillow's resampling filters, by their names in Paddle.
_FILTERS = ("nearest", "bilinear", "bicubic", "box", "lanczos", "hamming")


def _filter(interpolation: Any) -> Any:
    if interpolation not in _FILTERS:
        raise KeyError(
            f"interpolation of a PIL image should be one of {', '.join(_FILTERS)}, "
            f"but received {interpolation!r}"
        )
    return pillow().Image.Resampling[interpolation.upper()]


def to_tensor(pic: Any, data_format: str) -> Array:
    """Convert an image to an array of this layout, dividing 8-bit values by 255."""
    if pic.mode in ("I", "I;16"):
        array = np.asarray(pic, np.int32)
    elif pic.mode == "F":
        array = np.asarray(pic, np.float32)
    elif pic.mode == "1":
        array = np.asarray(pic, np.uint8) * np.uint8(255)
    else:
        array = np.asarray(pic)
    if array.dtype == np.uint8:
        array = array.astype(np.float32) / np.float32(255)
    array = array.reshape(pic.size[1], pic.size[0], -1)
    return np.ascontiguousarray(array.transpose(2, 0, 1) if data_format == "CHW" else array)


def resize(img: Any, size: tuple[int, int], interpolation: str) -> Any:
    """Resize to `size` = (height, width)."""
    return img.resize((size[1], size[0]), _filter(interpolation))


def pad(img: Any, sides: tuple[int, int, int, int], fill: Any, padding_mode: str) -> Any:
    """Pad by `sides` = (left, top, right, bottom) pixels."""
    pil = pillow()
    palette = img.getpalette() if img.mode == "P" else None
    if padding_mode == "constant":
        padded = pil.ImageOps.expand(img, border=sides, fill=fill)
    else:
        left, top, right, bottom = sides
        array = np.asarray(img)
        widths = ((top, bottom), (left, right), (0, 0))[: array.ndim]
        padded = pil.Image.fromarray(np.pad(array, widths, cast(Any, padding_mode)))
    if palette is not None:
        padded.putpalette(palette)
    return padded


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Cut out a box; it is black outside the image."""
    return img.crop((left, top, left + width, top + height))


def hflip(img: Any) -> Any:
    """Mirror left and right."""
    return img.transpose(pillow().Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    """Mirror top and bottom."""
    return img.transpose(pillow().Image.Transpose.FLIP_TOP_BOTTOM)


def adjust_brightness(img: Any, factor: float) -> Any:
    """Blend an image with black."""
    return pillow().ImageEnhance.Brightness(img).enhance(factor)


def adjust_contrast(img: Any, factor: float) -> Any:
    """Blend an image with its mean gray."""
    return pillow().ImageEnhance.Contrast(img).enhance(factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    """Blend an image with its gray version."""
    return pillow().ImageEnhance.Color(img).enhance(factor)


def adjust_hue(img: Any, factor: float) -> Any:
    """Rotate the hue by `factor` of the circle; images without color are not changed."""
    mode = img.mode
    if mode in ("L", "1", "I", "F"):
        return img
    image = pillow().Image
    hue, saturation, value = img.convert("HSV").split()
    shifted = (np.array(hue, np.int16) + int(factor * 255)) % 256
    hue = image.fromarray(shifted.astype(np.uint8))
    return image.merge("HSV", (hue, saturation, value)).convert(mode)


def _fill_for(img: Any, fill: Any) -> Any:
    """Convert a fill number to a color of the image's mode."""
    if not isinstance(fill, int) or len(img.getbands()) < 3:
        return fill
    return (fill,) * (4 if img.mode == "CMYK" else 3)


def affine(img: Any, matrix: Sequence[float], interpolation: str, fill: Any) -> Any:
    """Sample each result pixel (x, y) from the image at `matrix` @ (x, y, 1)."""
    method = pillow().Image.Transform.AFFINE
    return img.transform(
        img.size, method, list(matrix), _filter(interpolation), fillcolor=_fill_for(img, fill)
    )


def rotate(img: Any, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Any:
    """Rotate counter-clockwise by `angle` degrees."""
    return img.rotate(angle, _filter(interpolation), expand, center, fillcolor=_fill_for(img, fill))


def perspective(img: Any, coefficients: Sequence[float], interpolation: str, fill: Any) -> Any:
    """Warp an image by the projective map with these eight coefficients."""
    method = pillow().Image.Transform.PERSPECTIVE
    return img.transform(
        img.size, method, list(coefficients), _filter(interpolation), fillcolor=_fill_for(img, fill)
    )


def to_grayscale(img: Any, num_output_channels: int) -> Any:
    """Convert to gray in one channel (mode L) or in three equal ones."""
    grey = img.convert("L")
    if num_output_channels == 1:
        return grey
    return pillow().Image.fromarray(np.dstack([np.array(grey, np.uint8)] * 3))


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any) -> Any:
    """Overwrite a rectangle."""
    array = np.array(img, np.uint8)
    array[i : i + h, j : j + w, ...] = v
    return pillow().Image.fromarray(array)
