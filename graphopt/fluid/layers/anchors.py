"""Boxes that depend on image sizes alone, known or not: one operator each (paddle.fluid.layers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.vision.ops.boxes import prior_box as _prior_box

Pair = tuple[Variable, Variable]
_VARIANCE = (0.1, 0.1, 0.2, 0.2)


def _list_numbers(value: Any) -> list[float]:
    return [float(v) for v in value] if isinstance(value, (list, tuple)) else [float(value)]


def _variances(variance: Any, function: str) -> list[float]:
    if len(variance) != 4:
        raise ValueError(f"{function}(): 'variance' should have 4 numbers, found {variance}")
    return _list_numbers(variance)


def _emit_boxes(
    function: str,
    images: Mapping[str, Any],
    attrs: Mapping[str, Any],
    outputs: tuple[str, str],
    name: str | None,
) -> Pair:
    """Emit an operator that makes boxes and variances from the sizes of images [n, c, h, w]."""
    inputs: dict[str, Variable] = {}
    for argument, value in images.items():
        found = arguments.variable(value, argument, function)
        if len(found.shape) != 4:
            raise ValueError(
                f"{function}(): '{argument}' should be [n, c, h, w], found {list(found.shape)}"
            )
        inputs[argument.capitalize()] = found
    helper = LayerHelper(function, name)
    made = helper.emit_all(function, inputs, dict(attrs), outputs, stop_gradient=True)
    return made[0], made[1]


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
    """Generate boxes of several sizes and ratios at each pixel of a feature map [n, c, h, w].

    The boxes and their variances are [h, w, boxes, 4], in fractions of the image.
    Paddle page: fluid.layers.prior_box.
    """
    smallest = _list_numbers(min_sizes)
    largest = _list_numbers(max_sizes) if max_sizes else []
    if largest and len(largest) != len(smallest):
        raise ValueError("prior_box(): 'max_sizes' should have as many numbers as 'min_sizes'")
    return _prior_box(
        input,
        image,
        smallest,
        largest,
        _list_numbers(aspect_ratios),
        _variances(variance, "prior_box"),
        flip,
        clip,
        steps,
        offset,
        min_max_aspect_ratios_order,
        name,
    )


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
    """Generate density² boxes of each fixed size and ratio around each pixel.

    The results are as in `prior_box`; with `flatten_to_2d` both are [h * w * boxes, 4]. Boxes end
    at the image border. Paddle page: fluid.layers.density_prior_box.
    """
    function = "density_prior_box"
    numbers = arguments.integers(densities, "densities", function)
    sizes, ratios = _list_numbers(fixed_sizes or ()), _list_numbers(fixed_ratios or ())
    if len(numbers) != len(sizes) or not ratios:
        raise ValueError(
            f"{function}(): 'densities' and 'fixed_sizes' should have the same length, and "
            "'fixed_ratios' should not be empty"
        )
    attrs = {
        "densities": list(numbers),
        "fixed_sizes": sizes,
        "fixed_ratios": ratios,
        "variances": _variances(variance, function),
        "clip": arguments.flag(clip, "clip", function),
        "flatten_to_2d": arguments.flag(flatten_to_2d, "flatten_to_2d", function),
        "step_w": float(steps[0]),
        "step_h": float(steps[1]),
        "offset": arguments.number(offset, "offset", function),
    }
    images = {"input": input, "image": image}
    return _emit_boxes(function, images, attrs, ("Boxes", "Variances"), name)


def anchor_generator(
    input: Variable,
    anchor_sizes: Any = None,
    aspect_ratios: Any = None,
    variance: Sequence[float] = _VARIANCE,
    stride: Sequence[float] | None = None,
    offset: float = 0.5,
    name: str | None = None,
) -> Pair:
    """Generate anchors of several sizes and ratios (height to width) at each pixel.

    `input` is a feature map. The anchors and their variances are [h, w, anchors, 4], in pixels of
    the image. Paddle page: fluid.layers.anchor_generator.
    """
    function = "anchor_generator"
    if not isinstance(stride, (list, tuple)) or len(stride) != 2:
        raise ValueError(f"{function}(): 'stride' should be (width, height), found {stride}")
    attrs = {
        "anchor_sizes": _list_numbers(anchor_sizes),
        "aspect_ratios": _list_numbers(aspect_ratios),
        "variances": _variances(variance, function),
        "stride": _list_numbers(stride),
        "offset": arguments.number(offset, "offset", function),
    }
    return _emit_boxes(function, {"input": input}, attrs, ("Anchors", "Variances"), name)
