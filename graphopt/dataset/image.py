"""Images as arrays of rows, columns and channels, blue first (paddle.dataset.image)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from graphopt.frontend.images.image import Array, pillow
from graphopt.frontend.images.numpy_resize import resize
from graphopt.frontend.missing import explain


def load_image_bytes(bytes: bytes, is_color: bool = True) -> Array:
    """Decode an image; (rows, columns) without `is_color`. Needs Pillow."""
    return _pixels(io.BytesIO(bytes), is_color)


def load_image(file: str, is_color: bool = True) -> Array:
    """Load an image from a file; (rows, columns) without `is_color`. Needs Pillow."""
    return _pixels(file, is_color)


def _pixels(file: str | IO[bytes], is_color: bool) -> Array:
    with pillow().Image.open(file) as image:
        if not is_color:
            # the JPEG's own brightness channel, not the brightness of the decoded colors
            image.draft("L", image.size)
        upright = pillow().ImageOps.exif_transpose(image)
        if not is_color:
            return np.array(upright.convert("L"))
        return np.array(upright.convert("RGB"))[:, :, ::-1].copy()


def resize_short(im: Array, size: int) -> Array:
    """Resize so that the shorter edge has `size` pixels, by bicubic interpolation."""
    rows, columns = im.shape[:2]
    new = (size * rows // columns, size) if rows > columns else (size, size * columns // rows)
    return resize(im, new, "bicubic")


def to_chw(im: Array, order: Sequence[int] = (2, 0, 1)) -> Array:
    """Transpose an image, by default to (channels, rows, columns)."""
    if im.ndim != len(order):
        raise ValueError(f"to_chw: order {tuple(order)} for an image of shape {im.shape}")
    return im.transpose(order)


def center_crop(im: Array, size: int, is_color: bool = True) -> Array:
    """Cut out the middle `size` rows and columns."""
    rows, columns = im.shape[:2]
    return _crop(im, (rows - size) // 2, (columns - size) // 2, size)


def random_crop(im: Array, size: int, is_color: bool = True) -> Array:
    """Cut out `size` rows and columns at a place drawn by `numpy.random`."""
    rows, columns = im.shape[:2]
    top = np.random.randint(0, rows - size + 1)
    return _crop(im, top, np.random.randint(0, columns - size + 1), size)


def _crop(im: Array, top: int, left: int, size: int) -> Array:
    return im[top : top + size, left : left + size]


def left_right_flip(im: Array, is_color: bool = True) -> Array:
    """Mirror an image: the last column first."""
    return im[:, ::-1]


def simple_transform(
    im: Array,
    resize_size: int,
    crop_size: int,
    is_train: bool,
    is_color: bool = True,
    mean: Any = None,
) -> Array:
    """Resize the shorter edge, crop, put channels first, and subtract `mean`; float32.

    With `is_train` the crop is anywhere, and an image is mirrored with probability 1/2; else the
    crop is in the middle. The mean is a list with a number for each channel, or an array like the
    result.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size)
        if np.random.randint(2) == 0:
            im = left_right_flip(im)
    else:
        im = center_crop(im, crop_size)
    im = (to_chw(im) if im.ndim == 3 else im).astype(np.float32)
    if mean is not None:
        mean = np.array(mean, np.float32)
        im -= mean[:, None, None] if mean.ndim == 1 and is_color else mean
    return im


def load_and_transform(
    filename: str,
    resize_size: int,
    crop_size: int,
    is_train: bool,
    is_color: bool = True,
    mean: Any = None,
) -> Array:
    """Load an image from a file, and apply `simple_transform`. Needs Pillow."""
    im = load_image(filename, is_color)
    return simple_transform(im, resize_size, crop_size, is_train, is_color, mean)


explain(globals())
