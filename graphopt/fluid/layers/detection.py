"""Operators on a fixed number of boxes (paddle.fluid.layers.detection); see also `proposals.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.functional.activation import sigmoid
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.creation import assign, full, full_like
from graphopt.tensor.elementary import log1p
from graphopt.tensor.linalg import transpose
from graphopt.tensor.logic import equal, less_than, not_equal
from graphopt.tensor.manipulation import cast, concat, reshape, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import (
    abs,
    add,
    clip,
    divide,
    exp,
    log,
    maximum,
    minimum,
    multiply,
    pow,
    scale,
    subtract,
)
from graphopt.tensor.ranges import arange
from graphopt.tensor.search import where


def sides_of(boxes: Variable, count: int = 4) -> list[Variable]:
    """Split the last axis, of size `count`, into slices of size 1."""
    axis = len(boxes.shape) - 1
    return [slice_(boxes, [axis], [i], [i + 1]) for i in range(count)]


def to_centres(boxes: Variable, extra: float) -> tuple[Variable, ...]:
    """Convert corners (x, y, x, y) to center x, center y, width and height."""
    left, top, right, bottom = sides_of(boxes)
    width = scale(subtract(right, left), 1.0, extra)
    height = scale(subtract(bottom, top), 1.0, extra)
    return add(left, scale(width, 0.5)), add(top, scale(height, 0.5)), width, height


def iou_similarity(
    x: Variable, y: Variable, box_normalized: bool = True, name: str | None = None
) -> Variable:
    """Compute the intersection over union of boxes x [n, 4] with boxes y [m, 4]: [n, m].

    Corners that are pixels (not `box_normalized`) belong to the box.
    Paddle page: fluid.layers.iou_similarity.
    """
    arguments.variable(x, "x", "iou_similarity")
    arguments.variable(y, "y", "iou_similarity")
    extra = 0.0 if box_normalized else 1.0
    first = sides_of(unsqueeze(x, [1]))
    second = sides_of(unsqueeze(y, [0]))

    def area(box: list[Variable]) -> Variable:
        width = scale(subtract(box[2], box[0]), 1.0, extra)
        return multiply(width, scale(subtract(box[3], box[1]), 1.0, extra))

    corners = [maximum(a, b) for a, b in zip(first[:2], second[:2], strict=True)]
    corners += [minimum(a, b) for a, b in zip(first[2:], second[2:], strict=True)]
    width, height = (scale(subtract(corners[i + 2], corners[i]), 1.0, extra) for i in (0, 1))
    zero = full_like(width, 0.0)
    common = multiply(maximum(width, zero), maximum(height, zero))
    union = subtract(add(area(first), area(second)), common)
    rows, columns = x.shape[0], y.shape[0]
    return reshape(divide(common, union), [-1 if rows < 0 else rows, 0 if columns < 0 else columns])


def box_coder(
    prior_box: Variable,
    prior_box_var: Any,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    name: str | None = None,
    axis: int = 0,
) -> Variable:
    """Encode boxes as offsets from priors, or decode them (fluid.layers.box_coder).

    Encoding maps targets [n, 4] and priors [m, 4] to [n, m, 4]; decoding maps targets [n, m, 4] and
    priors [m, 4] (`axis` 0) or [n, 4] (`axis` 1) to boxes [n, m, 4]. `prior_box_var` is a Variable
    like the priors, four numbers, or None. The result has the sequences of the targets, or of the
    priors with `axis` 1.
    """
    arguments.variable(prior_box, "prior_box", "box_coder")
    arguments.variable(target_box, "target_box", "box_coder")
    options = ("encode_center_size", "decode_center_size")
    encode = arguments.choice(code_type, "code_type", "box_coder", options) == options[0]
    along = 0 if encode else arguments.integer(axis, "axis", "box_coder")
    if along not in (0, 1):
        raise ValueError(f"box_coder(): 'axis' should be 0 or 1, found {axis}")
    extra = 0.0 if box_normalized else 1.0
    levels = levels_of(prior_box if along else target_box)
    x, y, width, height = to_centres(unsqueeze(prior_box, [along]), extra)
    spread = _variances(prior_box_var, along, target_box.dtype.numpy)
    if encode:
        boxes = unsqueeze(target_box, [1])
        _, _, own_width, own_height = to_centres(boxes, extra)
        left, top, right, bottom = sides_of(boxes)
        centres = scale(add(left, right), 0.5), scale(add(top, bottom), 0.5)
        code = concat(
            [
                divide(subtract(centres[0], x), width),
                divide(subtract(centres[1], y), height),
                log(abs(divide(own_width, width))),
                log(abs(divide(own_height, height))),
            ],
            2,
        )
        made = code if spread is None else divide(code, spread)
        return note(made, levels) if levels else made
    code = target_box if spread is None else multiply(target_box, spread)
    right, down, wide, tall = sides_of(code)
    middle = add(multiply(right, width), x), add(multiply(down, height), y)
    half = scale(multiply(exp(wide), width), 0.5), scale(multiply(exp(tall), height), 0.5)
    low = [subtract(m, h) for m, h in zip(middle, half, strict=True)]
    high = [scale(add(m, h), 1.0, -extra) for m, h in zip(middle, half, strict=True)]
    made = concat([*low, *high], 2)
    return note(made, levels) if levels else made


def _variances(given: Any, axis: int, dtype: Any) -> Variable | None:
    if given is None:
        return None
    if isinstance(given, Variable):
        return unsqueeze(given, [axis])
    if len(given) != 4:
        raise ValueError(f"box_coder(): 'prior_box_var' should have 4 numbers, found {given}")
    return assign(np.asarray(given, dtype).reshape(1, 1, 4))


def box_clip(input: Variable, im_info: Variable, name: str | None = None) -> Variable:
    """Clip boxes [n, m, 4], or [m, 4] of one image, to the images (fluid.layers.box_clip).

    `im_info` [n, 3] has the height and width of the resized images, and their scale. The boxes of
    images may be sequences [m, ..., 4]. Raises UnsupportedError for boxes of several images in one
    list without lengths.
    """
    inputs = {
        "Input": arguments.variable(input, "input", "box_clip"),
        "ImInfo": arguments.variable(im_info, "im_info", "box_clip"),
    }
    levels = levels_of(input)
    if levels:
        inputs[SLOT] = of_one_level(input, "box_clip", "input")
    return note(emit("box_clip", inputs, name=name, out="Output"), levels)


def polygon_box_transform(input: Variable, name: str | None = None) -> Variable:
    """Convert offsets [n, g, h, w] from pixels, x and y in turn, to image positions.

    The image is four times as large. Paddle page: fluid.layers.polygon_box_transform.
    """
    shape = arguments.variable(input, "input", "polygon_box_transform").shape
    if len(shape) != 4 or min(shape[1:]) < 1 or shape[1] % 2:
        raise ValueError(
            f"polygon_box_transform(): expected [n, g, h, w] of known size with g even, found "
            f"{list(shape)}"
        )
    inputs = {"Input": input}
    return emit("polygon_box_transform", inputs, name=name, out="Output")


def sigmoid_focal_loss(
    x: Variable, label: Variable, fg_num: Variable, gamma: float = 2.0, alpha: float = 0.25
) -> Variable:
    """Compute the cross entropy of sigmoid(x) [n, c], with less weight for easy elements: [n, c].

    `label` [n, 1] has classes from 1 to c, 0 for the background, -1 for rows that do not count; the
    loss is divided by `fg_num` [1]. Paddle page: fluid.layers.sigmoid_focal_loss.
    """
    classes = arguments.variable(x, "x", "sigmoid_focal_loss").shape[1]
    arguments.variable(label, "label", "sigmoid_focal_loss")
    count = cast(arguments.variable(fg_num, "fg_num", "sigmoid_focal_loss"), x.dtype)
    count = maximum(count, full_like(count, 1.0))
    numbers = assign(np.arange(1, classes + 1, dtype=label.dtype.numpy).reshape(1, -1))
    own = equal(label, numbers)
    counts = cast(not_equal(label, full_like(label, -1)), x.dtype)
    p = sigmoid(x)
    rest = scale(p, -1.0, 1.0)
    smallest = float(np.finfo(np.float32).tiny)
    right = multiply(pow(rest, float(gamma)), log(clip(p, smallest, 1.0)))
    # log(1 - p), without rounding p first
    log_rest = subtract(scale(maximum(x, full_like(x, 0.0)), -1.0), _log1p_exp(scale(abs(x), -1.0)))
    wrong = multiply(multiply(pow(p, float(gamma)), log_rest), counts)
    loss = where(own, scale(right, -float(alpha)), scale(wrong, float(alpha) - 1.0))
    return divide(loss, count)


def _log1p_exp(x: Variable) -> Variable:
    return log1p(exp(x))


def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Any,
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> tuple[Variable, Variable]:
    """Decode YOLOv3's output to boxes [n, a * h * w, 4] and scores [n, a * h * w, classes].

    x is [n, a * (5 + classes), h, w]; `img_size`, int32 [n, 2], has the heights and widths of the
    images, `anchors` a widths and heights. Boxes with less confidence than `conf_thresh` are zeros.
    Paddle page: fluid.layers.yolo_box.
    """
    shape = arguments.variable(x, "x", "yolo_box").shape
    sizes = np.asarray(arguments.integers(anchors, "anchors", "yolo_box")).reshape(-1, 2)
    count, parts = len(sizes), 5 + arguments.integer(class_num, "class_num", "yolo_box")
    if len(shape) != 4 or shape[1] != count * parts:
        raise ValueError(f"yolo_box(): 'x' should be [n, {count * parts}, h, w], found {[*shape]}")
    dtype = x.dtype.numpy
    rows, columns = _map_size(x)
    apart = reshape(x, [-1, count, parts, rows, columns])

    def part(start: int, end: int) -> Variable:
        return slice_(apart, [2], [start], [end])

    image = cast(arguments.variable(img_size, "img_size", "yolo_box"), x.dtype)
    height, width = (reshape(side, [-1, 1, 1, 1, 1]) for side in sides_of(image, 2))
    # 1.8 divides both by the number of rows
    whole = cast(rows, x.dtype) if isinstance(rows, Variable) else full([1], rows, x.dtype)
    grid = _numbers(columns, [1, 1, 1, 1, -1], x.dtype), _numbers(rows, [1, 1, 1, -1, 1], x.dtype)
    shift = -0.5 * (scale_x_y - 1.0)
    halves: list[Variable] = []
    middles: list[Variable] = []
    for at, side in ((0, width), (1, height)):
        place = add(scale(sigmoid(part(at, at + 1)), scale_x_y, shift), grid[at])
        middles.append(multiply(divide(place, whole), side))
        share = (sizes[:, at] / downsample_ratio).astype(dtype)
        own = divide(assign(share.reshape(1, -1, 1, 1, 1)), whole)
        halves.append(scale(multiply(multiply(exp(part(at + 2, at + 3)), own), side), 0.5))
    corners = [subtract(m, h) for m, h in zip(middles, halves, strict=True)]
    corners += [add(m, h) for m, h in zip(middles, halves, strict=True)]
    if clip_bbox:
        corners = _inside(corners, width, height)
    sure = sigmoid(part(4, 5))
    kept = cast(less_than(sure, full_like(sure, conf_thresh)), x.dtype)
    kept = scale(kept, -1.0, 1.0)
    boxes = multiply(concat(corners, 2), kept)
    scores = multiply(multiply(sigmoid(part(5, parts)), sure), kept)
    return _flatten_anchors(boxes, 4, shape), _flatten_anchors(scores, class_num, shape)


def _map_size(x: Variable) -> list[int | Variable]:
    """Return the height and width of images [n, c, h, w], as integers or int32 Variables [1]."""
    return [
        size if size > 0 else slice_(shape_of(x), [0], [axis], [axis + 1])
        for axis, size in enumerate(x.shape[2:], 2)
    ]


def _numbers(count: int | Variable, shape: list[int], dtype: Any) -> Variable:
    """Create the numbers from 0 to `count` - 1 in a shape."""
    if isinstance(count, Variable):
        return reshape(cast(arange(0, count, 1, "int32"), dtype), shape)
    return assign(np.arange(count, dtype=dtype.numpy).reshape(shape))


def _inside(corners: list[Variable], width: Variable, height: Variable) -> list[Variable]:
    """Clamp the first corner to 0 or more, and the last one to the inside of the image."""
    low = [maximum(c, full_like(c, 0.0)) for c in corners[:2]]
    limits = scale(width, 1.0, -1.0), scale(height, 1.0, -1.0)
    return [*low, *[minimum(c, limit) for c, limit in zip(corners[2:], limits, strict=True)]]


def _flatten_anchors(x: Variable, size: int, of: Sequence[int]) -> Variable:
    """Transpose [n, a, size, h, w] to [n, a * h * w, size], for images of the shape `of`."""
    count = x.shape[1] * of[2] * of[3] if min(of[2:]) > 0 else -1
    rows = -1 if count > 0 else 0
    return reshape(transpose(x, [0, 1, 3, 4, 2]), [rows, count, size])
