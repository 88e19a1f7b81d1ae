"""Transforms of an image's size: resizing, cropping, padding, erasing.

Random numbers come from Python's `random` and from `numpy.random`, as in Paddle. Paddle pages:
paddle.vision.transforms.Resize, RandomResizedCrop, CenterCrop, RandomCrop, Pad, RandomErasing.
"""

from __future__ import annotations

import math
import numbers
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.images.image import image_size, is_pil_image
from graphopt.vision.transforms import functional as F
from graphopt.vision.transforms.base import BaseTransform


def _pair(size: Any) -> Any:
    return (int(size), int(size)) if isinstance(size, numbers.Number) else size  # type: ignore[arg-type]


class Resize(BaseTransform):
    """To (height, width), or the shorter side to one length; see `resize`."""

    def __init__(
        self, size: Any, interpolation: str = "bilinear", keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        is_pair = isinstance(size, Iterable) and len(tuple(size)) == 2
        assert isinstance(size, int) or is_pair, (
            f"Resize: size should be an int or (height, width), but received {size!r}"
        )
        self.size = size
        self.interpolation = interpolation

    def _apply_image(self, image: Any) -> Any:
        return F.resize(image, self.size, self.interpolation)


class RandomResizedCrop(BaseTransform):
    """A box of random area and aspect ratio, resized.

    `scale` bounds the share of the image's area, `ratio` width over height. After ten boxes that
    do not fit the middle of the image is taken.
    """

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.size = (size, size) if isinstance(size, int) else size
        assert scale[0] <= scale[1], "scale should be of kind (min, max)"
        assert ratio[0] <= ratio[1], "ratio should be of kind (min, max)"
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation

    def _get_param(self, image: Any, attempts: int = 10) -> tuple[int, int, int, int]:
        width, height = image_size(image)
        logarithms = (math.log(self.ratio[0]), math.log(self.ratio[1]))
        for _ in range(attempts):
            area = np.random.uniform(self.scale[0], self.scale[1]) * height * width
            aspect = math.exp(np.random.uniform(logarithms[0], logarithms[1]))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return random.randint(0, height - h), random.randint(0, width - w), h, w
        w, h = self._middle(width, height)
        return (height - h) // 2, (width - w) // 2, h, w

    def _middle(self, width: int, height: int) -> tuple[int, int]:
        """Compute the largest (width, height) with an allowed aspect ratio."""
        if width / height < min(self.ratio):
            return width, round(width / min(self.ratio))
        if width / height > max(self.ratio):
            return round(height * max(self.ratio)), height
        return width, height

    def _apply_image(self, image: Any) -> Any:
        cropped = F.crop(image, *self._get_param(image))
        return F.resize(cropped, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """The middle of the image; see `center_crop`."""

    def __init__(self, size: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.size = _pair(size)

    def _apply_image(self, image: Any) -> Any:
        return F.center_crop(image, self.size)


class RandomCrop(BaseTransform):
    """A box of one size at a random place, after padding.

    With `pad_if_needed` a smaller image is padded to the size. Raises ValueError when the box does
    not fit.
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.size = _pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def _get_param(self, image: Any, output_size: Any) -> tuple[int, int, int, int]:
        width, height = image_size(image)
        crop_height, crop_width = output_size
        if width == crop_width and height == crop_height:
            return 0, 0, height, width
        if height < crop_height or width < crop_width:
            raise ValueError(
                f"RandomCrop: an image of {height} x {width} pixels is smaller than the crop of "
                f"{crop_height} x {crop_width}; pass pad_if_needed=True"
            )
        top = random.randint(0, height - crop_height)
        return top, random.randint(0, width - crop_width), crop_height, crop_width

    def _apply_image(self, image: Any) -> Any:
        if self.padding is not None:
            image = F.pad(image, self.padding, self.fill, self.padding_mode)
        width, height = image_size(image)
        if self.pad_if_needed and width < self.size[1]:
            image = F.pad(image, (self.size[1] - width, 0), self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            image = F.pad(image, (0, self.size[0] - height), self.fill, self.padding_mode)
        return F.crop(image, *self._get_param(image, self.size))


class Pad(BaseTransform):
    """More pixels on the sides; see `pad`."""

    def __init__(
        self,
        padding: Any,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ) -> None:
        assert isinstance(padding, numbers.Number | list | tuple), "Got inappropriate padding arg"
        assert isinstance(fill, numbers.Number | str | list | tuple), "Got inappropriate fill arg"
        assert padding_mode in F.PADDING_MODES, (
            f"padding_mode should be one of {', '.join(F.PADDING_MODES)}"
        )
        F.check_padding(padding)
        super().__init__(keys)
        self.padding = tuple(padding) if isinstance(padding, list) else padding
        self.fill = tuple(fill) if isinstance(fill, list) else fill
        self.padding_mode = padding_mode

    def _apply_image(self, image: Any) -> Any:
        return F.pad(image, self.padding, self.fill, self.padding_mode)


class RandomErasing(BaseTransform):
    """A random rectangle overwritten, with probability `prob`.

    `value` is one number, one per channel, or "random" for noise. After ten rectangles that do not
    fit, the image is not changed.
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        assert isinstance(scale, tuple | list), "scale should be a tuple or list"
        assert 0 <= scale[0] <= scale[1] <= 1, (
            "scale should be of kind (min, max) and in range [0, 1]"
        )
        assert isinstance(ratio, tuple | list), "ratio should be a tuple or list"
        assert 0 <= ratio[0] <= ratio[1], "ratio should be of kind (min, max)"
        assert 0 <= prob <= 1, "The probability should be in range [0, 1]"
        assert isinstance(value, numbers.Number | str | tuple | list), (
            "value should be a number, tuple, list or str"
        )
        if isinstance(value, str) and value != "random":
            raise ValueError("value must be 'random' when type is str")
        self.prob = prob
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    def _get_param(self, image: Any, value: Any) -> tuple[int, int, int, int, Any] | None:
        shape = np.asarray(image).shape if is_pil_image(image) else image.shape
        height, width, channels = shape[-3:]
        logarithms = np.log(self.ratio)
        for _ in range(10):
            area = np.random.uniform(self.scale[0], self.scale[1]) * height * width
            aspect = np.exp(np.random.uniform(logarithms[0], logarithms[1]))
            h, w = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
            if h >= height or w >= width:
                continue
            if value is None:
                v = np.random.normal(size=[h, w, channels]) * 255
            else:
                v = np.array(value)[None, None, :]
            top = np.random.randint(0, height - h + 1)
            return top, np.random.randint(0, width - w + 1), h, w, v
        return None

    def _apply_image(self, image: Any) -> Any:
        if random.random() >= self.prob:
            return image
        value: Any = [self.value] if isinstance(self.value, numbers.Number) else self.value
        value = None if isinstance(value, str) else value
        if value is not None and len(value) not in (1, 3):
            raise ValueError(
                "Value should be a single number or a sequence with length equals to image's "
                "channel."
            )
        found = self._get_param(image, value)
        return image if found is None else F.erase(image, *found, self.inplace)
