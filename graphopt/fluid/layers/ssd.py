"""Training of single shot detectors (paddle.fluid.layers.detection)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphopt.fluid.layers.anchors import prior_box as prior_box_of
from graphopt.fluid.layers.detection import box_coder, iou_similarity
from graphopt.fluid.layers.loss import smooth_l1
from graphopt.fluid.layers.parametric import conv2d
from graphopt.fluid.layers.reduction import reduce_sum
from graphopt.fluid.layers.shaping import flatten, reshape
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.functional.loss import softmax_with_cross_entropy
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, concat
from graphopt.tensor.math import add, divide, maximum, multiply, scale


def bipartite_match(
    dist_matrix: Variable,
    match_type: str | None = None,
    dist_threshold: float | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Match boxes with objects: int32 [images, boxes], -1 for none; also return the nearness.

    `dist_matrix` [objects, boxes] has the nearness of each pair; the objects of an image are a
    sequence, or all rows belong to one image. The nearest pair goes first, each object and each box
    once. With the `match_type` per_prediction a box that is left takes the nearest object whose
    nearness is `dist_threshold` (0.5) or more. Paddle page: fluid.layers.bipartite_match.
    """
    function = "bipartite_match"
    inputs = {"DistMat": arguments.variable(dist_matrix, "dist_matrix", function)}
    inputs |= _lengths_of(dist_matrix, function, "dist_matrix")
    options = ("bipartite", "per_prediction")
    attrs = {
        "match_type": arguments.choice(match_type or options[0], "match_type", function, options),
        "dist_threshold": 0.5
        if dist_threshold is None
        else arguments.number(dist_threshold, "dist_threshold", function),
    }
    slots = ("ColToRowMatchIndices", "ColToRowMatchDist")
    helper = LayerHelper(function, name)
    indices, nearness = helper.emit_all(function, inputs, attrs, slots, stop_gradient=True)
    return indices, nearness


def _lengths_of(x: Variable, function: str, argument: str) -> dict[str, Variable]:
    """Return the slot with the lengths of sequences; no slot for one image."""
    return {SLOT: of_one_level(x, function, argument)} if levels_of(x) else {}


def target_assign(
    input: Variable,
    matched_indices: Variable,
    negative_indices: Variable | None = None,
    mismatch_value: float | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Gather the rows of the objects matched with boxes [images, boxes, k], and their weights.

    `input` [objects, boxes or 1, k] has a sequence of objects for each image, `matched_indices`
    [images, boxes] the number of each box's object, -1 for none. Weights [images, boxes, 1] are 1
    where there is an object, and at `negative_indices`, a sequence of numbers of boxes for each
    image; there, and without an object, the row is `mismatch_value` (0). Paddle page:
    fluid.layers.target_assign.
    """
    function = "target_assign"
    inputs = {
        "X": arguments.variable(input, "input", function),
        "MatchIndices": arguments.variable(matched_indices, "matched_indices", function),
        **_lengths_of(input, function, "input"),
    }
    if negative_indices is not None:
        inputs["NegIndices"] = arguments.variable(negative_indices, "negative_indices", function)
        inputs["NegLengths"] = of_one_level(negative_indices, function, "negative_indices")
    value = 0.0 if mismatch_value is None else mismatch_value
    attrs = {"mismatch_value": arguments.number(value, "mismatch_value", function)}
    helper = LayerHelper(function, name)
    out, weight = helper.emit_all(function, inputs, attrs, ("Out", "OutWeight"), stop_gradient=True)
    return out, weight


def ssd_loss(
    location: Variable,
    confidence: Variable,
    gt_box: Variable,
    gt_label: Variable,
    prior_box: Variable,
    prior_box_var: Any = None,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    loc_loss_weight: float = 1.0,
    conf_loss_weight: float = 1.0,
    match_type: str = "per_prediction",
    mining_type: str = "max_negative",
    normalize: bool = True,
    sample_size: int | None = None,
) -> Variable:
    """Compute the loss [n, 1] of offsets [n, m, 4] and class scores [n, m, classes] of m priors.

    `gt_box` [objects, 4] and `gt_label` [objects, 1] have a sequence of objects for each image. A
    prior that overlaps an object by `overlap_threshold` is trained to find it. Of the others, the
    priors with the largest losses are trained as background, `neg_pos_ratio` of them for each prior
    with an object. With `normalize` the loss is divided by the number of priors with an object.
    Raises ValueError for another `mining_type`; `sample_size` has no effect. Paddle page:
    fluid.layers.ssd_loss.
    """
    function = "ssd_loss"
    if mining_type != "max_negative":
        raise ValueError(f"{function}(): 'mining_type' must be max_negative, found {mining_type!r}")
    for name, value in (("location", location), ("confidence", confidence)):
        if len(arguments.variable(value, name, function).shape) != 3:
            raise ValueError(f"{function}(): '{name}' must be [n, m, k], found {[*value.shape]}")
    boxes = confidence.shape[1]
    overlap = iou_similarity(arguments.variable(gt_box, "gt_box", function), prior_box)
    matched, nearness = bipartite_match(overlap, match_type, overlap_threshold)
    label = arguments.variable(gt_label, "gt_label", function)
    label = reshape(label, [*[0] * (len(label.shape) - 1), -1, 1])
    label.stop_gradient = True
    target, _ = target_assign(label, matched, mismatch_value=background_label)
    confidence = flatten(confidence, 2)
    # negatives keep the background label, which all boxes without an object have
    target = cast(flatten(target, 2), "int64")
    target.stop_gradient = True
    class_loss = softmax_with_cross_entropy(confidence, target)
    assert isinstance(class_loss, Variable)
    inputs = {
        "ClsLoss": reshape(class_loss, [-1, boxes]),
        "MatchIndices": matched,
        "MatchDist": nearness,
    }
    attrs = {
        "neg_pos_ratio": arguments.number(neg_pos_ratio, "neg_pos_ratio", function),
        "neg_dist_threshold": arguments.number(neg_overlap, "neg_overlap", function),
        "mining_type": mining_type,
        "sample_size": 0,
    }
    negatives, matched = LayerHelper(function).emit_all(
        "mine_hard_examples",
        inputs,
        attrs,
        ("Negatives", "UpdatedMatchIndices"),
        stop_gradient=True,
    )
    offsets = box_coder(prior_box, prior_box_var, gt_box, "encode_center_size")
    wanted, has_object = target_assign(offsets, matched, mismatch_value=background_label)
    counted = maximum(reshape(has_object, [-1, boxes]), cast(negatives, "float32"))
    counted.stop_gradient = True
    class_loss = multiply(class_loss, reshape(counted, [-1, 1]))
    place_loss = multiply(
        smooth_l1(flatten(location, 2), flatten(wanted, 2)), flatten(has_object, 2)
    )
    loss = add(scale(class_loss, conf_loss_weight), scale(place_loss, loc_loss_weight))
    loss = reduce_sum(reshape(loss, [-1, boxes]), 1, keep_dim=True)
    return divide(loss, reduce_sum(has_object)) if normalize else loss


def multi_box_head(
    inputs: Sequence[Variable],
    image: Variable,
    base_size: int,
    num_classes: int,
    aspect_ratios: Sequence[Any],
    min_ratio: int | None = None,
    max_ratio: int | None = None,
    min_sizes: Sequence[Any] | None = None,
    max_sizes: Sequence[Any] | None = None,
    steps: Sequence[float] | None = None,
    step_w: Sequence[float] | None = None,
    step_h: Sequence[float] | None = None,
    offset: float = 0.5,
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = True,
    clip: bool = False,
    kernel_size: int = 1,
    pad: int = 0,
    stride: int = 1,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable, Variable, Variable]:
    """Predict offsets [n, m, 4] and class scores [n, m, classes] from feature maps.

    Also returns the priors [m, 4] and their variances. Each of `inputs` [n, c, h, w] has its own
    priors of `min_sizes`, `max_sizes` and `aspect_ratios`, and two convolutions. Without sizes they
    grow from `min_ratio` to `max_ratio` percent of `base_size`, for three inputs or more; the first
    input has 10 and 20 percent. Raises ValueError for lists of another length than `inputs`. Paddle
    page: fluid.layers.multi_box_head.
    """
    function = "multi_box_head"
    maps = arguments.variables(inputs, "inputs", function)
    if min_sizes is None and max_sizes is None and len(maps) > 2:
        min_sizes, max_sizes = _growing(len(maps), base_size, min_ratio, max_ratio, function)
    if steps is not None:
        step_w = step_h = steps
    given = {"min_sizes": min_sizes, "max_sizes": max_sizes, "aspect_ratios": aspect_ratios}
    given |= {"step_w": step_w, "step_h": step_h}
    for argument, values in given.items():
        optional = argument.startswith("step") or argument == "aspect_ratios"
        if (values is None and not optional) or (values is not None and len(values) != len(maps)):
            raise ValueError(
                f"{function}(): '{argument}' must have one item for each of the {len(maps)} inputs"
            )
    assert min_sizes is not None and max_sizes is not None
    found: list[list[Variable]] = [[], [], [], []]
    for at, each in enumerate(maps):
        step = (step_w[at] if step_w else 0.0, step_h[at] if step_h else 0.0)
        ratios = aspect_ratios[at] if aspect_ratios else []
        boxes, spread = prior_box_of(
            *(each, image, min_sizes[at], max_sizes[at], ratios, variance, flip, clip, step),
            *(offset, None, min_max_aspect_ratios_order),
        )
        places = _head(each, boxes.shape[2] * 4, kernel_size, pad, stride)
        marks = _head(each, boxes.shape[2] * num_classes, kernel_size, pad, stride)
        for whole, part in zip(found, (places, marks, boxes, spread), strict=True):
            whole.append(part)
    if len(maps) == 1:
        (places,), (marks,), (boxes,), (spread,) = found
    else:
        boxes, spread = (concat([flatten(part, 3) for part in whole]) for whole in found[2:])
        places = reshape(concat(found[0], 1), [0, -1, 4])
        marks = reshape(concat(found[1], 1), [0, -1, num_classes])
    boxes.stop_gradient = spread.stop_gradient = True
    return places, marks, boxes, spread


def _growing(
    count: int, base_size: int, min_ratio: int | None, max_ratio: int | None, function: str
) -> tuple[list[float], list[float]]:
    """Compute the smallest and largest prior sizes of each feature map from ratios in percent."""
    least = arguments.integer(min_ratio, "min_ratio", function)
    most = arguments.integer(max_ratio, "max_ratio", function)
    step = math.floor((most - least) / (count - 2))
    if step < 1:
        raise ValueError(f"{function}(): 'max_ratio' {most} must be above 'min_ratio' {least}")
    ratios = range(least, most + 1, step)
    low = [0.1 * base_size, *(base_size * ratio / 100 for ratio in ratios)]
    return low, [0.2 * base_size, *(base_size * (ratio + step) / 100 for ratio in ratios)]


def _head(x: Variable, filters: int, size: int, pad: int, stride: int) -> Variable:
    """Apply a convolution, move the channels last, and flatten each image."""
    made = conv2d(x, filters, size, padding=pad, stride=stride)
    return flatten(transpose(made, [0, 2, 3, 1]), 1)
