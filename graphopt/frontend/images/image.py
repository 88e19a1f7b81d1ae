"""Images: a Pillow image, or an array of rows, columns and perhaps channels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.ir.program import Variable

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

Array: TypeAlias = np.ndarray[Any, Any]


def is_pil_image(img: Any) -> TypeGuard[PILImage]:
    """True for a Pillow image; does not import Pillow."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(img, pillow.Image)


def is_numpy_image(img: Any) -> TypeGuard[Array]:
    """True for an array with two or three dimensions."""
    return isinstance(img, np.ndarray) and img.ndim in (2, 3)


def check_image(img: Any, function: str) -> None:
    """Raise TypeError unless `img` is an image, UnsupportedError for a Variable."""
    if isinstance(img, Variable):
        raise UnsupportedError(
            f"{function} works on images outside the program, and variable '{img.name}' has no "
            "value yet; transform the image first and feed the result"
        )
    if not (is_pil_image(img) or is_numpy_image(img)):
        found = f"ndarray with dim={img.ndim}" if isinstance(img, np.ndarray) else type(img)
        raise TypeError(
            f"{function}: img should be PIL Image or ndarray with dim=[2 or 3]. Got {found}"
        )


def image_size(img: Any) -> tuple[int, int]:
    """Return the width and height of an image."""
    if is_pil_image(img):
        return img.size
    check_image(img, "the size of an image")
    return img.shape[1], img.shape[0]


def pillow() -> Any:
    """Import Pillow with the modules used here; the ImportError says how to install it."""
    try:
        import PIL.Image
        import PIL.ImageEnhance
        import PIL.ImageOps
    except ImportError:
        raise ImportError(
            "transforms of PIL images need Pillow: pip install 'graphopt[vision]', or pass "
            "NumPy arrays"
        ) from None
    return PIL
