"""Boxes in JAX; those that follow from sizes alone are constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection import boxes as ops
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers

Floats = tuple[float, ...]
Numbers = np.ndarray[Any, Any]


def _around(centres: list[Numbers], halves: Any) -> Numbers:
    """Build boxes [h, w, count, 4] around the centers from half sides [count, 2]."""
    x, y = np.meshgrid(*centres)
    middle = np.stack([x, y], -1)[:, :, None]
    return np.concatenate([middle - halves, middle + halves], -1)


def _with_variances(boxes: Numbers, variances: Floats, dtype: Any) -> tuple[Array, Array]:
    spread = np.broadcast_to(np.asarray(variances), boxes.shape)
    return jnp.asarray(boxes, dtype), jnp.asarray(spread, dtype)


def _grid(
    input: Array, image: Array, step_w: float, step_h: float, offset: float
) -> tuple[list[Numbers], tuple[float, float], list[int]]:
    """Compute the centers in pixels, their distances, and four sizes of the image."""
    (rows, columns), (height, width) = input.shape[2:], image.shape[2:]
    if step_w == 0 or step_h == 0:
        step_w, step_h = width / columns, height / rows
    pairs = ((columns, step_w), (rows, step_h))
    centres = [(np.arange(n) + offset) * step for n, step in pairs]
    return centres, (step_w, step_h), [width, height, width, height]


@lowers(ops.PriorBox)
def prior_box(
    input: Array,
    image: Array,
    min_sizes: Floats,
    max_sizes: Floats,
    aspect_ratios: Floats,
    variances: Floats,
    flip: bool,
    clip: bool,
    step_w: float,
    step_h: float,
    offset: float,
    min_max_aspect_ratios_order: bool,
) -> tuple[Array, Array]:
    ratios = ops.all_ratios(aspect_ratios, flip)
    halves: list[list[float]] = []
    for number, size in enumerate(min_sizes):
        shaped = [[size * r**0.5 / 2, size / r**0.5 / 2] for r in ratios]
        square = [[math.sqrt(size * max_sizes[number]) / 2] * 2] if max_sizes else []
        ordered = [*shaped[:1], *square, *shaped[1:]]
        halves += ordered if min_max_aspect_ratios_order else [*shaped, *square]
    centres, _, sizes = _grid(input, image, step_w, step_h, offset)
    boxes = _around(centres, np.array(halves)) / sizes
    return _with_variances(np.clip(boxes, 0, 1) if clip else boxes, variances, input.dtype)


@lowers(ops.DensityPriorBox)
def density_prior_box(
    input: Array,
    image: Array,
    densities: tuple[int, ...],
    fixed_sizes: Floats,
    fixed_ratios: Floats,
    variances: Floats,
    clip: bool,
    flatten_to_2d: bool,
    step_w: float,
    step_h: float,
    offset: float,
) -> tuple[Array, Array]:
    centres, step, sizes = _grid(input, image, step_w, step_h, offset)
    average = int((step[0] + step[1]) * 0.5)
    parts: list[Numbers] = []
    for size, density in zip(fixed_sizes, densities, strict=True):
        shift = average // density
        moves = -average / 2.0 + shift / 2.0 + np.arange(density) * shift
        for ratio in fixed_ratios:
            half = np.array([[size * ratio**0.5, size / ratio**0.5]]) / 2
            for down in moves:
                parts += [_around([centres[0] + right, centres[1] + down], half) for right in moves]
    boxes = np.concatenate(parts, 2) / sizes
    # even without `clip`, the first corner is at least 0 and the last at most 1
    boxes = np.concatenate([np.maximum(boxes[..., :2], 0), np.minimum(boxes[..., 2:], 1)], -1)
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    return _with_variances(boxes.reshape(-1, 4) if flatten_to_2d else boxes, variances, input.dtype)


@lowers(ops.AnchorGenerator)
def anchor_generator(
    input: Array,
    anchor_sizes: Floats,
    aspect_ratios: Floats,
    variances: Floats,
    stride: Floats,
    offset: float,
) -> tuple[Array, Array]:
    halves: list[list[float]] = []
    for ratio in aspect_ratios:
        # round halves away from zero
        base = math.floor(math.sqrt(stride[0] * stride[1] / ratio) + 0.5)
        tall = math.floor(base * ratio + 0.5)
        for size in anchor_sizes:
            box = (size / stride[0] * base, size / stride[1] * tall)
            halves.append([(side - 1) / 2 for side in box])
    sizes = input.shape[:1:-1]
    centres = [np.arange(n) * s + offset * (s - 1) for n, s in zip(sizes, stride, strict=True)]
    return _with_variances(_around(centres, np.array(halves)), variances, input.dtype)


def _to_centres(boxes: Array, extra: float) -> tuple[Array, Array, Array, Array]:
    """Convert corners (x, y, x, y) to center x, center y, width and height."""
    left, top, right, bottom = (boxes[..., i] for i in range(4))
    width, height = right - left + extra, bottom - top + extra
    return left + width / 2, top + height / 2, width, height


@lowers(ops.BoxCoder)
def box_coder(
    prior_box: Array,
    prior_box_var: Array | None,
    target_box: Array,
    code_type: str,
    box_normalized: bool,
    axis: int,
    variance: Floats,
) -> Array:
    extra = 0.0 if box_normalized else 1.0
    encodes = code_type.startswith("encode")
    along = 0 if encodes else axis
    priors = jnp.expand_dims(wide(prior_box), along)
    x, y, width, height = _to_centres(priors, extra)
    if prior_box_var is not None:
        spread: Any = jnp.expand_dims(wide(prior_box_var), along)
    else:
        spread = np.asarray(variance or (1.0,) * 4, priors.dtype)
    target = wide(target_box)
    if encodes:
        boxes = target[:, None]
        _, _, own_width, own_height = _to_centres(boxes, extra)
        centre_x, centre_y = (boxes[..., i] / 2 + boxes[..., i + 2] / 2 for i in (0, 1))
        code = [
            (centre_x - x) / width,
            (centre_y - y) / height,
            jnp.log(jnp.abs(own_width / width)),
            jnp.log(jnp.abs(own_height / height)),
        ]
        return (jnp.stack(code, -1) / spread).astype(target_box.dtype)
    code = target * spread
    middle = code[..., 0] * width + x, code[..., 1] * height + y
    half = jnp.exp(code[..., 2]) * width / 2, jnp.exp(code[..., 3]) * height / 2
    low = [m - h for m, h in zip(middle, half, strict=True)]
    high = [m + h - extra for m, h in zip(middle, half, strict=True)]
    return jnp.stack([*low, *high], -1).astype(target_box.dtype)


@lowers(ops.IouSimilarity)
def iou_similarity(x: Array, y: Array, box_normalized: bool) -> Array:
    extra = 0.0 if box_normalized else 1.0
    first, second = wide(x)[:, None], wide(y)[None]

    def area(box: Array) -> Array:
        return (box[..., 2] - box[..., 0] + extra) * (box[..., 3] - box[..., 1] + extra)

    low, high = (
        jnp.maximum(first[..., :2], second[..., :2]),
        jnp.minimum(first[..., 2:], second[..., 2:]),
    )
    sides = jnp.maximum(high - low + extra, 0)
    common = sides[..., 0] * sides[..., 1]
    union = area(first) + area(second) - common + 1e-10  # boxes without an area overlap by 0
    return (common / union).astype(x.dtype)
