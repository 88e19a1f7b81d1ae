"""Transforms as functions of one image (paddle.vision.transforms).

An image is a Pillow image or a NumPy array (H, W) or (H, W, C), and the result is of the same kind
unless a function says otherwise. Raises TypeError for another type, and UnsupportedError for a
Variable: images are transformed before they are fed.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.images.image import Array, check_image, image_size, is_pil_image
from graphopt.vision.transforms import functional_numpy as on_numpy
from graphopt.vision.transforms import functional_pil as on_pil


def _backend(img: Any) -> Any:
    """Select the module with the functions for this kind of image."""
    return on_pil if is_pil_image(img) else on_numpy


PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


def to_tensor(pic: Any, data_format: str = "CHW") -> Array:
    """Convert an image to an array to feed (paddle.vision.transforms.to_tensor).

    Paddle returns a Tensor; here, where programs are static, it is a NumPy array: (C, H, W), or (H,
    W, C) with `data_format` "HWC". Images of bytes become float32 in 0..1; other dtypes are kept.
    Raises ValueError for another `data_format`.
    """
    check_image(pic, "to_tensor")
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format should be CHW or HWC. Got {data_format}")
    return _backend(pic).to_tensor(pic, data_format)


def resize(img: Any, size: Any, interpolation: str = "bilinear") -> Any:
    """Resize an image (paddle.vision.transforms.resize).

    `size` is (height, width), or the length of the shorter side. `interpolation` is nearest,
    bilinear, bicubic or lanczos; box or hamming for a Pillow image; area for an array. Raises
    TypeError for another `size`, KeyError for an unknown interpolation.
    """
    check_image(img, "resize")
    if not (isinstance(size, int) or (isinstance(size, Iterable) and len(tuple(size)) == 2)):
        raise TypeError(f"Got inappropriate size arg: {size}")
    width, height = image_size(img)
    if isinstance(size, int):
        if min(width, height) == size:
            return img
        shorter, longer = min(width, height), max(width, height)
        scaled = int(size * longer / shorter)
        size = (scaled, size) if width < height else (size, scaled)
    first, second = size
    return _backend(img).resize(img, (first, second), interpolation)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Pad an image on its sides (paddle.vision.transforms.pad).

    `padding` is one number, (left and right, top and bottom), or (left, top, right, bottom). `fill`
    is the color for the mode "constant". Raises TypeError for arguments of another type, ValueError
    for a sequence of another length, AssertionError for another mode.
    """
    check_image(img, "pad")
    if not isinstance(padding, numbers.Number | list | tuple):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, numbers.Number | str | list | tuple):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    check_padding(padding)
    assert padding_mode in PADDING_MODES, (
        f"Padding mode should be one of {', '.join(PADDING_MODES)}, but received {padding_mode!r}"
    )
    given: Any = padding
    sides = (given,) * 4 if isinstance(padding, int) else tuple(given)
    left, top, right, bottom = sides * 2 if len(sides) == 2 else sides
    return _backend(img).pad(img, (left, top, right, bottom), fill, padding_mode)


def check_padding(padding: Any) -> None:
    """Raise ValueError for a sequence whose length is neither 2 nor 4."""
    if isinstance(padding, Sequence) and len(padding) not in (2, 4):
        raise ValueError(
            f"Padding must be an int or a 2, or 4 element tuple, not a {len(padding)} element tuple"
        )


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Cut out the box with this corner and size (paddle.vision.transforms.crop)."""
    check_image(img, "crop")
    return _backend(img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """Cut out the middle of an image (paddle.vision.transforms.center_crop).

    `output_size` is (height, width), or one number for both.
    """
    check_image(img, "center_crop")
    if isinstance(output_size, numbers.Number):
        output_size = (int(output_size), int(output_size))  # type: ignore[arg-type]
    width, height = image_size(img)
    crop_height, crop_width = output_size
    top, left = round((height - crop_height) / 2.0), round((width - crop_width) / 2.0)
    return crop(img, top, left, crop_height, crop_width)


def hflip(img: Any) -> Any:
    """Mirror left and right (paddle.vision.transforms.hflip)."""
    check_image(img, "hflip")
    return _backend(img).hflip(img)


def vflip(img: Any) -> Any:
    """Mirror top and bottom (paddle.vision.transforms.vflip)."""
    check_image(img, "vflip")
    return _backend(img).vflip(img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Scale the brightness: 0 is black, 1 the image (paddle.vision.transforms.adjust_brightness).

    An array is cast to bytes.
    """
    check_image(img, "adjust_brightness")
    return _backend(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Scale the contrast: 0 is gray, 1 the image (paddle.vision.transforms.adjust_contrast).

    Raises TypeError for an array that is not uint8.
    """
    check_image(img, "adjust_contrast")
    return _backend(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Scale the saturation: 0 is gray, 1 the image (paddle.vision.transforms.adjust_saturation).

    For an array the factor is random: uniform between max(0, 1 - `saturation_factor`) and 1 +
    `saturation_factor`.
    """
    check_image(img, "adjust_saturation")
    return _backend(img).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Rotate the hue by a fraction of the circle (paddle.vision.transforms.adjust_hue).

    Raises ValueError unless `hue_factor` is in [-0.5, 0.5].
    """
    check_image(img, "adjust_hue")
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor:{hue_factor} is not in [-0.5, 0.5].")
    return _backend(img).adjust_hue(img, hue_factor)


def affine(
    img: Any,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: str = "nearest",
    fill: Any = 0,
    center: Any = None,
) -> Any:
    """Rotate, move, scale and shear an image (paddle.vision.transforms.affine).

    `angle` and `shear` are in degrees, `translate` = (x, y) in pixels. Raises TypeError and
    ValueError for arguments of another type or value.
    """
    check_image(img, "affine")
    if not isinstance(angle, int | float):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, list | tuple):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(interpolation, str):
        raise TypeError("Argument interpolation should be a string")
    if center is not None and not isinstance(center, list | tuple):
        raise TypeError("Argument center should be a sequence")
    shears = _shears(shear)
    width, height = image_size(img)
    if is_pil_image(img):
        center = (width * 0.5, height * 0.5) if center is None else center
        matrix = _affine_matrix(center, float(angle), translate, scale, shears)
        return on_pil.affine(img, matrix, interpolation, fill)
    # Paddle swaps an array's height and width here, and so rotates it around another point.
    center = (height * 0.5, width * 0.5) if center is None else center
    return on_numpy.affine(img, float(angle), translate, scale, shears, interpolation, fill, center)


def _shears(shear: Any) -> list[float]:
    if not isinstance(shear, numbers.Number | list | tuple):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    shears: list[Any] = list(shear) if isinstance(shear, list | tuple) else [shear, 0.0]
    shears = shears * 2 if len(shears) == 1 else shears
    if len(shears) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    return shears


def _affine_matrix(
    center: Any, angle: float, translate: Any, scale: float, shear: Any
) -> list[float]:
    """Compute the map from result pixels to source pixels, as two rows: the inverse of the map."""
    rotation, across, down = (math.radians(degrees) for degrees in (angle, *shear))
    a = math.cos(rotation - down) / math.cos(down)
    b = -math.cos(rotation - down) * math.tan(across) / math.cos(down) - math.sin(rotation)
    c = math.sin(rotation - down) / math.cos(down)
    d = -math.sin(rotation - down) * math.tan(across) / math.cos(down) + math.cos(rotation)
    rows = [[d / scale, -b / scale], [-c / scale, a / scale]]
    x, y = (-center[k] - translate[k] for k in (0, 1))
    return [
        value
        for row, middle in zip(rows, center, strict=True)
        for value in (*row, row[0] * x + row[1] * y + middle)
    ]


def rotate(
    img: Any,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Any = None,
    fill: Any = 0,
) -> Any:
    """Rotate counter-clockwise by `angle` degrees (paddle.vision.transforms.rotate).

    `center` is (x, y), by default the middle. `expand` makes room for the corners. For an array a
    single number as `fill` is the value of the first channel, as in Paddle.
    """
    check_image(img, "rotate")
    center = tuple(center) if isinstance(center, list) else center
    fill = tuple(fill) if isinstance(fill, list) else fill
    return _backend(img).rotate(img, angle, interpolation, expand, center, fill)


def perspective(
    img: Any, startpoints: Any, endpoints: Any, interpolation: str = "nearest", fill: Any = 0
) -> Any:
    """Move four points of an image to four others (paddle.vision.transforms.perspective).

    Points are [x, y].
    """
    check_image(img, "perspective")
    if is_pil_image(img):
        coefficients = _perspective_coefficients(startpoints, endpoints)
        return on_pil.perspective(img, coefficients, interpolation, fill)
    return on_numpy.perspective(img, startpoints, endpoints, interpolation, fill)


def _perspective_coefficients(startpoints: Any, endpoints: Any) -> list[float]:
    """Solve for the projective map from the end points back to the start points."""
    rows = []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    goal = np.array(startpoints, float).reshape(8)
    return list(np.linalg.lstsq(np.array(rows, float), goal, rcond=None)[0])


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Convert an image to shades of gray (paddle.vision.transforms.to_grayscale).

    Raises ValueError unless `num_output_channels` is 1 or 3.
    """
    check_image(img, "to_grayscale")
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    return _backend(img).to_grayscale(img, num_output_channels)


def normalize(
    img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False
) -> Array:
    """Compute (img - mean) / std per channel (paddle.vision.transforms.normalize).

    A Pillow image becomes a float32 array. `to_rgb` reverses the last axis first.
    """
    if is_pil_image(img):
        img = np.array(img).astype(np.float32)
    check_image(img, "normalize")
    return on_numpy.normalize(img, mean, std, data_format, to_rgb)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """Overwrite a rectangle at row `i`, column `j` with `v` (paddle.vision.transforms.erase).

    With `inplace` it changes the array itself.
    """
    check_image(img, "erase")
    if is_pil_image(img):
        return on_pil.erase(img, i, j, h, w, v)
    return on_numpy.erase(img, i, j, h, w, v, inplace)
