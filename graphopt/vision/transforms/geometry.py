"""Transforms that move pixels: flips, rotations, affine and projective maps, at random.

Random numbers come from Python's `random`, as in Paddle. Paddle pages:
paddle.vision.transforms.RandomHorizontalFlip, RandomRotation, RandomAffine, RandomPerspective.
"""

from __future__ import annotations

import numbers
import random
from collections.abc import Sequence
from typing import Any

from graphopt.frontend.images.image import image_size
from graphopt.vision.transforms import functional as F
from graphopt.vision.transforms.base import BaseTransform

_WARPS = ("nearest", "bilinear", "bicubic")


def _check_probability(prob: float) -> None:
    assert 0 <= prob <= 1, "probability must be between 0 and 1"


class RandomHorizontalFlip(BaseTransform):
    """Left and right exchanged, with probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        _check_probability(prob)
        self.prob = prob

    def _apply_image(self, image: Any) -> Any:
        return F.hflip(image) if random.random() < self.prob else image


class RandomVerticalFlip(BaseTransform):
    """Top and bottom exchanged, with probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        _check_probability(prob)
        self.prob = prob

    def _apply_image(self, image: Any) -> Any:
        return F.vflip(image) if random.random() < self.prob else image


class RandomRotation(BaseTransform):
    """Rotated by an angle from [-degrees, degrees], or from `degrees` = (low, high); see `rotate`.

    Raises ValueError for a negative number or a sequence of another length.
    """

    def __init__(
        self,
        degrees: Any,
        interpolation: str = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        if isinstance(degrees, numbers.Number):
            number: Any = degrees
            if number < 0:
                raise ValueError("If degrees is a single number, it must be positive.")
            self.degrees: Any = (-number, number)
        else:
            if len(degrees) != 2:
                raise ValueError("If degrees is a sequence, it must be of len 2.")
            self.degrees = degrees
        super().__init__(keys)
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = fill

    def _get_param(self, degrees: Any) -> float:
        return random.uniform(degrees[0], degrees[1])

    def _apply_image(self, image: Any) -> Any:
        angle = self._get_param(self.degrees)
        return F.rotate(image, angle, self.interpolation, self.expand, self.center, self.fill)


def _check_sequence(x: Any, name: str, lengths: tuple[int, ...]) -> None:
    message = " or ".join(str(length) for length in lengths)
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {message}.")
    if len(x) not in lengths:
        raise ValueError(f"{name} should be sequence of length {message}.")


def _angles(x: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    if isinstance(x, numbers.Number):
        number: Any = x
        if number < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(number), float(number)]
    _check_sequence(x, name, lengths)
    return [float(angle) for angle in x]


class RandomAffine(BaseTransform):
    """Rotated, moved, scaled and sheared at random; see `affine`.

    `translate` bounds the move as shares of width and height, `scale` = (low, high), `shear` is
    an angle, a range, or a range for x and one for y.
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Any = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        self.degrees = _angles(degrees, "degrees")
        super().__init__(keys)
        assert interpolation in _WARPS, f"interpolation should be one of {', '.join(_WARPS)}"
        self.interpolation = interpolation
        if translate is not None:
            _check_sequence(translate, "translate", (2,))
            if not all(0.0 <= share <= 1.0 for share in translate):
                raise ValueError("translation values should be between 0 and 1")
        self.translate = translate
        if scale is not None:
            _check_sequence(scale, "scale", (2,))
            if any(factor <= 0 for factor in scale):
                raise ValueError("scale values should be positive")
        self.scale = scale
        self.shear = None if shear is None else _angles(shear, "shear", (2, 4))
        fill = 0 if fill is None else fill
        if not isinstance(fill, Sequence | numbers.Number):
            raise TypeError("Fill should be either a sequence or a number.")
        self.fill = fill
        if center is not None:
            _check_sequence(center, "center", (2,))
        self.center = center

    def _get_param(
        self,
        img_size: Sequence[int],
        degrees: Any,
        translate: Any = None,
        scale_ranges: Any = None,
        shears: Any = None,
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        angle = random.uniform(degrees[0], degrees[1])
        moved = (0, 0)
        if translate is not None:
            across, down = (float(translate[k] * img_size[k]) for k in (0, 1))
            moved = (int(random.uniform(-across, across)), int(random.uniform(-down, down)))
        scale = 1.0 if scale_ranges is None else random.uniform(*scale_ranges)
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = random.uniform(shears[0], shears[1])
            shear_y = random.uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0
        return angle, moved, scale, (shear_x, shear_y)

    def _apply_image(self, image: Any) -> Any:
        params = self._get_param(
            image_size(image), self.degrees, self.translate, self.scale, self.shear
        )
        return F.affine(image, *params, self.interpolation, self.fill, self.center)


class RandomPerspective(BaseTransform):
    """The corners moved by up to `distortion_scale` of half the size; see `perspective`."""

    def __init__(
        self,
        prob: float = 0.5,
        distortion_scale: float = 0.5,
        interpolation: str = "nearest",
        fill: Any = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        _check_probability(prob)
        assert 0 <= distortion_scale <= 1, "distortion_scale must be between 0 and 1"
        assert interpolation in _WARPS, f"interpolation should be one of {', '.join(_WARPS)}"
        assert isinstance(fill, numbers.Number | str | list | tuple), "Got inappropriate fill arg"
        self.prob = prob
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = fill

    def get_params(
        self, width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the corners, clockwise from the top left, and draw their targets."""
        across = int(distortion_scale * (width // 2)) + 1
        down = int(distortion_scale * (height // 2)) + 1

        def corner(right: bool, bottom: bool) -> list[int]:
            x = random.uniform(width - across, width) if right else random.uniform(0, across)
            y = random.uniform(height - down, height) if bottom else random.uniform(0, down)
            return [int(x), int(y)]

        start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        sides = ((False, False), (True, False), (True, True), (False, True))
        return start, [corner(*side) for side in sides]

    def _apply_image(self, image: Any) -> Any:
        width, height = image_size(image)
        if random.random() >= self.prob:
            return image
        start, end = self.get_params(width, height, self.distortion_scale)
        return F.perspective(image, start, end, self.interpolation, self.fill)
