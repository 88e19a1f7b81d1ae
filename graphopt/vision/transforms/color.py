"""Random transforms of colors (paddle.vision.transforms.ColorJitter and its parts).

Random numbers come from Python's `random`, as in Paddle.
"""

from __future__ import annotations

import numbers
import random
from collections.abc import Sequence
from typing import Any

from graphopt.vision.transforms import functional as F
from graphopt.vision.transforms.base import BaseTransform, Compose


def _factor_range(
    value: Any,
    name: str,
    center: float = 1,
    bound: tuple[float, float] = (0, float("inf")),
    clip: bool = True,
) -> list[float] | None:
    """Compute the range from which factors are drawn; None for a range without effect."""
    if isinstance(value, numbers.Number):
        number: Any = value
        if number < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low, high = center - number, center + number
        low = max(low, 0) if clip else low
    elif isinstance(value, tuple | list) and len(value) == 2:
        low, high = value
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}")
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    return None if low == high == center else [low, high]


class BrightnessTransform(BaseTransform):
    """Brightness times a factor from [max(0, 1 - value), 1 + value], or from `value` = (low, high).

    Raises ValueError for a negative number, TypeError unless `value` is a number or a pair.
    """

    def __init__(self, value: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.value = _factor_range(value, "brightness")

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_brightness(image, random.uniform(*self.value))


class ContrastTransform(BaseTransform):
    """Contrast times a factor from [max(0, 1 - value), 1 + value]."""

    def __init__(self, value: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        if value < 0:
            raise ValueError("contrast value should be non-negative")
        self.value = _factor_range(value, "contrast")

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_contrast(image, random.uniform(*self.value))


class SaturationTransform(BaseTransform):
    """Saturation times a factor from [max(0, 1 - value), 1 + value], or `value` = (low, high)."""

    def __init__(self, value: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.value = _factor_range(value, "saturation")

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_saturation(image, random.uniform(*self.value))


class HueTransform(BaseTransform):
    """Hue rotated by a share from [-value, value], or from `value` = (low, high); at most 0.5."""

    def __init__(self, value: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.value = _factor_range(value, "hue", center=0, bound=(-0.5, 0.5), clip=False)

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_hue(image, random.uniform(*self.value))


class ColorJitter(BaseTransform):
    """Brightness, contrast, saturation and hue changed in a random order."""

    def __init__(
        self,
        brightness: Any = 0,
        contrast: Any = 0,
        saturation: Any = 0,
        hue: Any = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue

    def _get_param(self, brightness: Any, contrast: Any, saturation: Any, hue: Any) -> Compose:
        chosen = (
            (BrightnessTransform, brightness),
            (ContrastTransform, contrast),
            (SaturationTransform, saturation),
            (HueTransform, hue),
        )
        transforms = [kind(value, self.keys) for kind, value in chosen if value is not None]
        random.shuffle(transforms)
        return Compose(transforms)

    def _apply_image(self, image: Any) -> Any:
        transform = self._get_param(self.brightness, self.contrast, self.saturation, self.hue)
        return transform(image)


class Grayscale(BaseTransform):
    """Shades of gray in 1 or 3 channels; see `to_grayscale`."""

    def __init__(self, num_output_channels: int = 1, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, image: Any) -> Any:
        return F.to_grayscale(image, self.num_output_channels)
