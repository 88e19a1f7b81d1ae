"""Boxes in fixed numbers: anchors at each pixel, offsets from them, overlaps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops.detection import boxes as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

Floats = Sequence[float]


def _corners(x: Array, y: Array, width: Array, height: Array) -> Array:
    """Compute the corners of boxes around centers, in a new last axis."""
    sides = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    return np.stack(np.broadcast_arrays(*sides), -1)


def _centres(
    input: Array, image: Array, offset: float, step_w: float, step_h: float
) -> tuple[Array, Array, float, float]:
    """Compute x [w, 1] and y [h, 1, 1] of each pixel in the image, and the distances of pixels."""
    (height, width), sizes = input.shape[2:], image.shape[2:]
    if not (step_w and step_h):
        step_w, step_h = sizes[1] / max(width, 1), sizes[0] / max(height, 1)
    x = (np.arange(width)[:, None] + offset) * step_w
    return x, (np.arange(height)[:, None, None] + offset) * step_h, step_w, step_h


def _with_variances(boxes: Array, variances: Floats, clip: bool = False) -> tuple[Array, Array]:
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    return boxes, np.broadcast_to(np.array(variances, boxes.dtype), boxes.shape)


@rule(ops.PriorBox)
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
    ratios = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if flip else [ratio]
    sizes: list[tuple[float, float]] = []
    for number, size in enumerate(min_sizes):
        own = [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios]
        side = math.sqrt(size * max_sizes[number]) if max_sizes else 0.0
        between = [(side, side)] if max_sizes else []
        first = 1 if min_max_aspect_ratios_order else len(own)
        sizes += own[:first] + between + own[first:]
    x, y, _, _ = _centres(input, image, offset, step_w, step_h)
    width, height = np.array(sizes).T
    rows, columns = image.shape[2:]
    boxes = _corners(x, y, width, height) / (columns, rows, columns, rows)
    return _with_variances(boxes.astype(input.dtype), variances, clip)


@rule(ops.DensityPriorBox)
def density_prior_box(
    input: Array,
    image: Array,
    densities: Sequence[int],
    fixed_sizes: Floats,
    fixed_ratios: Floats,
    variances: Floats,
    clip: bool,
    flatten_to_2d: bool,
    step_w: float,
    step_h: float,
    offset: float,
) -> tuple[Array, Array]:
    x, y, step_w, step_h = _centres(input, image, offset, step_w, step_h)
    step = int((step_w + step_h) / 2)
    placed: list[tuple[float, float, float, float]] = []
    for size, density in zip(fixed_sizes, densities, strict=True):
        apart = step // density
        places = [apart / 2 - step / 2 + at * apart for at in range(density)]
        for ratio in fixed_ratios:
            width, height = size * math.sqrt(ratio), size / math.sqrt(ratio)
            placed += [(right, down, width, height) for down in places for right in places]
    right, down, width, height = np.array(placed).T
    rows, columns = image.shape[2:]
    boxes = _corners(x + right, y + down, width, height) / (columns, rows, columns, rows)
    # even without `clip`, the first corner is at least 0 and the last at most 1
    boxes = np.concatenate([np.maximum(boxes[..., :2], 0), np.minimum(boxes[..., 2:], 1)], -1)
    shape = (math.prod(boxes.shape[:-1]), 4) if flatten_to_2d else boxes.shape
    return _with_variances(np.reshape(boxes, shape).astype(input.dtype), variances, clip)


@rule(ops.AnchorGenerator)
def anchor_generator(
    input: Array,
    anchor_sizes: Floats,
    aspect_ratios: Floats,
    variances: Floats,
    stride: Floats,
    offset: float,
) -> tuple[Array, Array]:
    width, height = stride
    x = np.arange(input.shape[3])[:, None] * width + offset * (width - 1)
    y = np.arange(input.shape[2])[:, None, None] * height + offset * (height - 1)
    sizes: list[tuple[float, float]] = []
    for ratio in aspect_ratios:
        across = math.floor(math.sqrt(width * height / ratio) + 0.5)
        down = math.floor(across * ratio + 0.5)
        sizes += [(size / width * across - 1, size / height * down - 1) for size in anchor_sizes]
    boxes = _corners(x, y, *np.array(sizes).T)
    return _with_variances(boxes.astype(input.dtype), variances)


@rule(ops.BoxCoder)
def box_coder(
    prior_box: Array,
    prior_box_var: Array | None,
    target_box: Array,
    code_type: str,
    box_normalized: bool,
    axis: int,
    variance: Floats,
) -> Array:
    pixel = 0.0 if box_normalized else 1.0
    sizes = prior_box[:, 2:] - prior_box[:, :2]
    sizes = sizes + pixel if pixel else sizes  # keep -0
    centres = prior_box[:, :2] + sizes / 2
    by: Array = np.ones(4, target_box.dtype)
    if prior_box_var is not None:
        by = prior_box_var
    elif variance:
        by = np.array(variance, target_box.dtype)
    if code_type.startswith("encode"):
        target = target_box[:, None]
        middle = (target[..., :2] + target[..., 2:]) / 2
        ratio = (target[..., 2:] - target[..., :2] + pixel) / sizes
        return np.concatenate([(middle - centres) / sizes, np.log(np.abs(ratio))], -1) / by
    if axis == 1:
        sizes, centres = sizes[:, None], centres[:, None]
        by = by[:, None] if by.ndim == 2 else by
    moved = target_box * by
    middle, half = moved[..., :2] * sizes + centres, np.exp(moved[..., 2:]) * sizes / 2
    return np.concatenate([middle - half, middle + half - pixel], -1)


@rule(ops.IouSimilarity)
def iou_similarity(x: Array, y: Array, box_normalized: bool) -> Array:
    pixel = 0.0 if box_normalized else 1.0

    def area(low: Array, high: Array) -> Array:
        sides = high - low + pixel
        return sides[..., 0] * sides[..., 1]

    x = x[:, None]
    low, high = np.maximum(x[..., :2], y[:, :2]), np.minimum(x[..., 2:], y[:, 2:])
    sides = np.maximum(high - low + pixel, 0.0)
    shared = sides[..., 0] * sides[..., 1]
    both = area(x[..., :2], x[..., 2:]) + area(y[:, :2], y[:, 2:])
    return shared / (both - shared + 1e-10)
