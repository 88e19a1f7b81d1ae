"""Boxes that depend on sizes alone, computed when the program is built (paddle.fluid.layers)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign

Pair = tuple[Variable, Variable]
_VARIANCE = (0.1, 0.1, 0.2, 0.2)


def _size(x: Any, name: str, function: str) -> tuple[int, int]:
    """The height and width of images [n, c, h, w], which must be known."""
    shape = arguments.variable(x, name, function).shape
    if len(shape) != 4 or min(shape[2:]) < 1:
        raise ValueError(
            f"{function}(): '{name}' should be [n, c, h, w] of known height and width, found "
            f"{list(shape)}"
        )
    return shape[2], shape[3]


def _listed(value: Any) -> list[float]:
    return [float(v) for v in value] if isinstance(value, (list, tuple)) else [float(value)]


def _boxes(
    centres: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
    halves: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """[h, w, count, 4] of boxes [count, 2] around the centres, by half their width and height."""
    x, y = np.meshgrid(*centres)
    middle = np.stack([x, y], -1)[:, :, None]
    return np.concatenate([middle - halves, middle + halves], -1)


def _result(boxes: np.ndarray[Any, Any], variance: Any, function: str) -> Pair:
    """The boxes and, in the same shape, their variances."""
    if len(variance) != 4:
        raise ValueError(f"{function}(): 'variance' should have 4 numbers, found {variance}")
    spread = np.broadcast_to(np.asarray(variance, "float32"), boxes.shape)
    made = [assign(np.array(values, "float32")) for values in (boxes, spread)]
    for value in made:
        value.stop_gradient = True
    return made[0], made[1]


def _steps(steps: Any, feature: tuple[int, int], image: tuple[int, int]) -> tuple[float, float]:
    """The distance of the centres: (width, height), that of the images unless given."""
    if steps[0] == 0 or steps[1] == 0:
        return image[1] / feature[1], image[0] / feature[0]
    return float(steps[0]), float(steps[1])


def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Any,
    max_sizes: Any = None,
    aspect_ratios: Any = (1.0,),
    variance: Sequence[float] = _VARIANCE,
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> Pair:
    """Boxes of several sizes and shapes at each pixel of a feature map [n, c, h, w] of images.

    The boxes and their variances are [h, w, boxes, 4], in fractions of the image.
    Paddle page: fluid.layers.prior_box.
    """
    feature = _size(input, "input", "prior_box")
    height, width = _size(image, "image", "prior_box")
    smallest = _listed(min_sizes)
    largest = _listed(max_sizes) if max_sizes else []
    if largest and len(largest) != len(smallest):
        raise ValueError("prior_box(): 'max_sizes' should have as many numbers as 'min_sizes'")
    ratios = [1.0]
    for ratio in _listed(aspect_ratios):
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, 1.0 / ratio] if flip else [ratio]
    halves: list[list[float]] = []
    for number, size in enumerate(smallest):
        shaped = [[size * r**0.5 / 2, size / r**0.5 / 2] for r in ratios]
        square = [[math.sqrt(size * largest[number]) / 2] * 2] if largest else []
        ordered = [*shaped[:1], *square, *shaped[1:]]
        halves += ordered if min_max_aspect_ratios_order else [*shaped, *square]
    step = _steps(steps, feature, (height, width))
    centres = tuple((np.arange(n) + offset) * s for n, s in zip(feature[::-1], step, strict=True))
    boxes = _boxes((centres[0], centres[1]), np.array(halves)) / [width, height, width, height]
    return _result(np.clip(boxes, 0, 1) if clip else boxes, variance, "prior_box")


def density_prior_box(
    input: Variable,
    image: Variable,
    densities: Sequence[int] | None = None,
    fixed_sizes: Sequence[float] | None = None,
    fixed_ratios: Sequence[float] | None = None,
    variance: Sequence[float] = _VARIANCE,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    flatten_to_2d: bool = False,
    name: str | None = None,
) -> Pair:
    """As `prior_box`, but density² boxes of each fixed size and ratio around each pixel.

    With `flatten_to_2d` both results are [h * w * boxes, 4]. Boxes end at the image.
    Paddle page: fluid.layers.density_prior_box.
    """
    function = "density_prior_box"
    feature = _size(input, "input", function)
    height, width = _size(image, "image", function)
    numbers = arguments.integers(densities, "densities", function)
    sizes, ratios = _listed(fixed_sizes or ()), _listed(fixed_ratios or ())
    if len(numbers) != len(sizes) or not ratios:
        raise ValueError(
            f"{function}(): 'densities' and 'fixed_sizes' should have the same length, and "
            "'fixed_ratios' should not be empty"
        )
    step = _steps(steps, feature, (height, width))
    average = int((step[0] + step[1]) * 0.5)
    centres = [(np.arange(n) + offset) * s for n, s in zip(feature[::-1], step, strict=True)]
    parts: list[np.ndarray[Any, Any]] = []
    for size, density in zip(sizes, numbers, strict=True):
        shift = average // density
        moves = -average / 2.0 + shift / 2.0 + np.arange(density) * shift
        for ratio in ratios:
            half = np.array([[size * ratio**0.5, size / ratio**0.5]]) / 2
            for down in moves:
                parts += [_boxes((centres[0] + right, centres[1] + down), half) for right in moves]
    # boxes never leave the image, so clipping changes nothing
    boxes = np.clip(np.concatenate(parts, 2) / [width, height, width, height], 0, 1)
    return _result(boxes.reshape(-1, 4) if flatten_to_2d else boxes, variance, function)


def anchor_generator(
    input: Variable,
    anchor_sizes: Any = None,
    aspect_ratios: Any = None,
    variance: Sequence[float] = _VARIANCE,
    stride: Sequence[float] | None = None,
    offset: float = 0.5,
    name: str | None = None,
) -> Pair:
    """Anchors of several sizes and ratios (height to width) at each pixel of a feature map.

    The anchors and their variances are [h, w, anchors, 4], in pixels of the image.
    Paddle page: fluid.layers.anchor_generator.
    """
    function = "anchor_generator"
    feature = _size(input, "input", function)
    if not isinstance(stride, (list, tuple)) or len(stride) != 2:
        raise ValueError(f"{function}(): 'stride' should be (width, height), found {stride}")
    step = (float(stride[0]), float(stride[1]))
    halves: list[list[float]] = []
    for ratio in _listed(aspect_ratios):
        # halves are rounded away from zero
        base = math.floor(math.sqrt(step[0] * step[1] / ratio) + 0.5)
        tall = math.floor(base * ratio + 0.5)
        for size in _listed(anchor_sizes):
            box = (size / step[0] * base, size / step[1] * tall)
            halves.append([(side - 1) / 2 for side in box])
    centres = [
        np.arange(n) * s + offset * (s - 1) for n, s in zip(feature[::-1], step, strict=True)
    ]
    return _result(_boxes((centres[0], centres[1]), np.array(halves)), variance, function)
