"""The kind of image that data sets return: Pillow images, or the arrays of OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.frontend.images.image import pillow

_backend = "pil"


def set_image_backend(backend: str) -> None:
    """Set the images of data sets to Pillow images ("pil") or arrays ("cv2"); else ValueError."""
    global _backend
    _backend = choose_backend(backend)


def get_image_backend() -> str:
    """Return the kind of image, "pil" or "cv2"."""
    return _backend


def choose_backend(backend: str | None) -> str:
    """Check a kind of image; None selects the current one. ValueError for another word."""
    if backend is None:
        return _backend
    if backend not in ("pil", "cv2"):
        raise ValueError(f"Expected backend are one of ['pil', 'cv2'], but got {backend}")
    return backend


def image_load(path: str, backend: str | None = None) -> Any:
    """Load an image as a Pillow image or as an array with blue first. Needs Pillow."""
    image = pillow().Image.open(path)
    if choose_backend(backend) == "pil":
        return image
    with image:
        return np.array(image.convert("RGB"))[:, :, ::-1].copy()
