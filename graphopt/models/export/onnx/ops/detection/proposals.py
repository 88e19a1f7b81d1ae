"""Selection of boxes by NonMaxSuppression.

Where sides count one pixel more, boxes end one pixel later for that operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops.detection import proposals as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import LAST, Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.detection.boxes import overlaps
from graphopt.models.export.onnx.ops.sequence.layers import owners_of
from graphopt.models.export.onnx.ops.sort import take_first
from graphopt.models.export.onnx.registry import exports

MANY = 2**31 - 1


def _choose_boxes(
    emit: Nodes,
    boxes: Value,
    scores: Value,
    iou: float,
    least: float,
    most: int,
    extra: float,
) -> list[Value]:
    """Select the boxes that no better one covers: the image, class and index of each.

    Boxes are [n, m, 4], scores [n, classes, m]. The result is grouped by image and class, from best
    to worst.
    """
    boxes, scores = emit.cast(boxes, "float32"), emit.cast(scores, "float32")
    if extra:
        boxes = emit("Add", boxes, emit.constant(np.asarray([0, 0, extra, extra], "float32")))
    limits = emit.ints([most]), *(emit.constant(np.asarray([v], np.float32)) for v in (iou, least))
    found = emit("NonMaxSuppression", boxes, scores, *limits, dtype="int64")
    return [emit.squeeze(emit.cut(found, [1], [at], [at + 1]), 1) for at in range(3)]


def _check(eta: float) -> None:
    if eta < 1:
        raise NotInOnnx("the threshold changes from box to box (eta < 1)")


def _at_most(emit: Nodes, count: int, size: Value) -> Value:
    """Limit a count for TopK to the number of elements; -1 is no limit."""
    return emit("Min", size, emit.ints([count])) if count > -1 else size


def _sort_order(emit: Nodes, keys: Value) -> Value:
    """Compute the stable ascending order of keys."""
    return take_first(emit, keys, emit("Shape", keys), -1, False)[1]


def _pick(emit: Nodes, order: Value, values: Sequence[Value]) -> list[Value]:
    return [emit("Gather", value, order, axis=0) for value in values]


def _best_of_images(emit: Nodes, image: Value, score: Value, images: Value, count: int) -> Value:
    """Mark the `count` best scores of each image."""
    order = take_first(emit, score, emit("Shape", score))[1]
    own = emit("Equal", emit.unsqueeze(emit("Gather", image, order, axis=0), 1), images)
    ranks = emit("CumSum", emit.cast(own, "int64"), emit.number(0, "int64"))
    number = emit(
        "ReduceSum", emit("Where", own, ranks, emit.number(0, "int64")), emit.ints([1]), keepdims=0
    )
    kept = emit.cast(emit("LessOrEqual", number, emit.number(count, "int64")), "int32")
    back = emit("ScatterElements", kept, order, kept, axis=0)
    return emit.cast(back, "bool")


def _counts(emit: Nodes, image: Value, images: Value) -> Value:
    """Count the rows of each image."""
    own = emit("Equal", emit.unsqueeze(image, 1), images)
    return emit.cast(
        emit("ReduceSum", emit.cast(own, "int64"), emit.ints([0]), keepdims=0), "int32"
    )


def _rows(emit: Nodes, label: Value, score: Value, boxes: Value) -> Value:
    columns = (emit.unsqueeze(value, 1) for value in (emit.cast(label, dtype_of(score)), score))
    return emit("Concat", *columns, boxes, axis=1)


@exports(ops.Nms)
def nms(emit: Nodes, x: Value, threshold: float) -> Value:
    count = emit("Shape", x, start=0, end=1)
    worth = emit.cast(emit("Sub", count, emit.places(x)), "float32")
    _, _, place = _choose_boxes(
        emit, emit.unsqueeze(x, 0), emit.unsqueeze(worth, 0, 1), threshold, 0, MANY, 0
    )
    return place


@exports(ops.MulticlassNms)
def multiclass_nms(
    emit: Nodes,
    bboxes: Value,
    scores: Value,
    rois_num: Value | None,
    background_label: int,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    normalized: bool,
    nms_eta: float,
) -> tuple[Value, Value, Value]:
    _check(nms_eta)
    extra, listed = 0.0 if normalized else 1.0, rois_num is not None
    own_boxes, marks = bboxes, scores
    if rois_num is not None:
        # a class has its own boxes: NonMaxSuppression takes classes as images, images as classes
        own_boxes = emit.transpose(bboxes, (1, 0, 2))
        owner = emit.unsqueeze(owners_of(emit, emit.ints(rois_num), bboxes), 0)
        number = emit.unsqueeze(emit.range(emit("Size", rois_num)), 1)
        there = emit("Equal", owner, number)
        marks = emit.unsqueeze(emit.transpose(scores, (1, 0)), 1)
        marks = emit("Where", there, marks, emit.number(-math.inf, marks))
    if background_label >= 0:
        classes = emit.places(scores, 1)
        is_background = emit("Equal", classes, emit.number(background_label, "int64"))
        is_background = emit.unsqueeze(is_background, *((1, 2) if listed else (1,)))
        marks = emit("Where", is_background, emit.number(-math.inf, marks), marks)
    size = sizes_of(bboxes)[0 if listed else 1]
    if nms_top_k > -1 and (size == UNKNOWN or nms_top_k < size):
        marks = _best_alone(emit, marks, nms_top_k)
    first, second, at = _choose_boxes(
        emit, own_boxes, marks, nms_threshold, score_threshold, MANY, extra
    )
    image, label = (second, first) if listed else (first, second)
    places = [at, label] if listed else [image, label, at]
    index = emit("Concat", *(emit.unsqueeze(value, 1) for value in places), axis=1)
    score = emit("GatherND", scores, index)
    images = emit.range(emit("Size", rois_num)) if rois_num is not None else emit.places(bboxes)
    if keep_top_k > -1:
        kept = _best_of_images(emit, image, score, images, keep_top_k)
        image, label, at, score = (
            emit("Compress", value, kept, axis=0) for value in (image, label, at, score)
        )
    if listed:  # here Paddle sorts the rows of a class by position
        keys = emit("Add", emit("Mul", image, emit.size(scores, 1)), label)
        keys = emit("Add", emit("Mul", keys, emit.size(scores, 0)), at)
        image, label, at, score = _pick(emit, _sort_order(emit, keys), (image, label, at, score))
    major, minor, width = (
        (at, label, emit.size(scores, 1))
        if listed
        else (
            image,
            at,
            emit.size(scores, 2),
        )
    )
    pair = emit("Concat", emit.unsqueeze(major, 1), emit.unsqueeze(minor, 1), axis=1)
    rows = _rows(emit, label, score, emit("GatherND", bboxes, pair))
    number = emit("Add", emit("Mul", major, width), minor)
    return rows, emit.cast(emit.unsqueeze(number, 1), "int32"), _counts(emit, image, images)


def _best_alone(emit: Nodes, marks: Value, count: int) -> Value:
    """Keep the `count` best scores of each class; set the others to -inf."""
    values, places = take_first(emit, marks, _at_most(emit, count, emit("Shape", marks, start=-1)))
    nothing = emit.zeros(emit("Shape", marks), marks, -math.inf)
    return emit("ScatterElements", nothing, places, values, axis=-1)


@exports(ops.MatrixNms)
def matrix_nms(
    emit: Nodes,
    bboxes: Value,
    scores: Value,
    background_label: int,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool,
    gaussian_sigma: float,
    normalized: bool,
) -> tuple[Value, Value, Value]:
    """Rank the candidates of all classes together, decayed by their overlaps with better ones."""
    marks, nothing = scores, emit.number(-math.inf, scores)
    if background_label >= 0:
        classes = emit.unsqueeze(emit.places(scores, 1), 1)
        is_background = emit("Equal", classes, emit.number(background_label, "int64"))
        marks = emit("Where", is_background, nothing, marks)
    count = _at_most(emit, nms_top_k, emit.size(scores, 2))
    values, places = take_first(emit, marks, count)
    flat = emit.reshape(places, [0, -1, 1])
    own = emit("GatherND", bboxes, flat, batch_dims=1)
    own = emit("Reshape", own, emit("Concat", emit("Shape", places), emit.ints([4]), axis=0))
    factors = _decay(emit, own, use_gaussian, gaussian_sigma, 0.0 if normalized else 1.0)
    decayed = emit("Mul", values, factors)
    good = emit(
        "And",
        emit("Greater", values, emit.number(score_threshold, values)),
        emit("Greater", decayed, emit.number(post_threshold, values)),
    )
    ranked = emit("Where", good, decayed, nothing)
    every = emit.reshape(ranked, [0, -1])
    kept = _at_most(emit, keep_top_k, emit("Shape", every, start=1))
    score, at = take_first(emit, every, kept)
    place = emit("GatherElements", emit.reshape(places, [0, -1]), at, axis=1)
    label = emit("Div", at, count)
    there = emit.reshape(emit("Greater", score, nothing), [-1])
    images = emit.places(bboxes)
    image = emit("Expand", emit.unsqueeze(images, 1), emit("Shape", at))
    image, label, place, score = (
        emit("Compress", emit.reshape(value, [-1]), there, axis=0)
        for value in (image, label, place, score)
    )
    pair = emit("Concat", emit.unsqueeze(image, 1), emit.unsqueeze(place, 1), axis=1)
    rows = _rows(emit, label, score, emit("GatherND", bboxes, pair))
    number = emit("Add", emit("Mul", image, emit.size(scores, 2)), place)
    return rows, emit.cast(emit.unsqueeze(number, 1), "int32"), _counts(emit, image, images)


def _decay(emit: Nodes, boxes: Value, gaussian: bool, sigma: float, extra: float) -> Value:
    """Compute the decay factor of each score of boxes [..., k, 4], sorted from best to worst."""
    pairs = emit.unsqueeze(boxes, -2), emit.unsqueeze(boxes, -3)
    common, union = overlaps(emit, *pairs, extra, apart=True)
    zero, one = emit.number(0, boxes), emit.number(1, boxes)
    some = emit("Greater", common, zero)
    shares = emit("Where", some, emit("Div", common, emit("Where", some, union, one)), zero)
    places = emit.range(emit("Shape", boxes, start=-2, end=-1))
    before = emit("Less", emit.unsqueeze(places, 0), emit.unsqueeze(places, 1))
    shares = emit("Where", before, shares, zero)
    covered = emit.unsqueeze(emit("ReduceMax", shares, emit.ints([-1]), keepdims=0), -2)
    if gaussian:
        squares = emit("Sub", emit("Mul", covered, covered), emit("Mul", shares, shares))
        decay = emit("Exp", emit("Mul", squares, emit.number(sigma, boxes)))
    else:
        rest = emit("Sub", one, covered)
        whole = emit("Equal", rest, zero)
        decay = emit("Div", emit("Sub", one, shares), emit("Where", whole, one, rest))
        decay = emit("Where", whole, one, decay)
    decay = emit("Where", before, decay, one)
    least = emit("ReduceMin", decay, emit.ints([-1]), keepdims=0)
    return emit("Min", least, one)


@exports(ops.GenerateProposals)
def generate_proposals(
    emit: Nodes,
    scores: Value,
    bbox_deltas: Value,
    im_shape: Value,
    anchors: Value,
    variances: Value,
    pre_nms_top_n: int,
    post_nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
    pixel_offset: bool,
) -> tuple[Value, Value, Value]:
    _check(eta)
    if nms_thresh <= 0:
        raise NotInOnnx("nms_thresh is 0 or less")
    extra = 1.0 if pixel_offset else 0.0
    marks = emit.reshape(emit.transpose(scores, (0, 2, 3, 1)), [0, -1])
    kinds, rows, columns = (emit.size(scores, axis) for axis in (1, 2, 3))
    deltas = emit.reshape(bbox_deltas, [0, kinds, 4, rows, columns])
    deltas = emit.reshape(emit.transpose(deltas, (0, 3, 4, 1, 2)), [0, -1, 4])
    limit = pre_nms_top_n if pre_nms_top_n > 0 else -1
    marks, order = take_first(emit, marks, _at_most(emit, limit, emit("Shape", marks, start=1)))
    delta = emit("GatherND", deltas, emit.unsqueeze(order, 2), batch_dims=1)
    base, spread = (
        emit("Gather", emit.reshape(value, [-1, 4]), order, axis=0)
        for value in (anchors, variances)
    )
    boxes = _decode_boxes(emit, base, emit("Mul", delta, spread), extra)
    sizes = emit.unsqueeze(emit.cut(im_shape, [1], [0], [2]), 1)
    sizes = emit("Concat", *(emit.cut(sizes, [2], [at], [at + 1]) for at in (1, 0)), axis=2)
    most = emit("Sub", sizes, emit.number(extra, sizes))
    most = emit("Concat", most, most, axis=2)
    boxes = emit("Max", emit("Min", boxes, most), emit.number(0, boxes))
    good = _large(emit, boxes, im_shape, sizes, max(min_size, 1.0), pixel_offset)
    worth = emit.range(emit("Shape", order, start=1))
    worth = emit.cast(emit("Sub", emit("Shape", order, start=1), worth), "float32")
    worth = emit("Where", good, worth, emit.number(0, "float32"))
    number = post_nms_top_n if post_nms_top_n > 0 else MANY
    chosen = _choose_boxes(emit, boxes, emit.unsqueeze(worth, 1), nms_thresh, 0, number, extra)
    return _with_empty(emit, chosen[0], chosen[2], boxes, marks, emit.places(scores))


def _with_empty(
    emit: Nodes, image: Value, place: Value, boxes: Value, marks: Value, images: Value
) -> tuple[Value, Value, Value]:
    """Collect boxes, scores and counts; an image without boxes gets one box of zeros."""
    pair = emit("Concat", emit.unsqueeze(image, 1), emit.unsqueeze(place, 1), axis=1)
    counts = _counts(emit, image, images)
    nothing = emit("Equal", counts, emit.number(0, "int32"))
    empty = emit("Compress", images, nothing, axis=0)
    zeros = emit.unsqueeze(emit("Mul", empty, emit.number(0, "int64")), 1)
    rows = emit("GatherND", boxes, pair), emit.unsqueeze(emit("GatherND", marks, pair), 1)
    order = _sort_order(emit, emit("Concat", image, empty, axis=0))
    found = [
        emit(
            "Concat",
            value,
            emit("Tile", emit.cast(zeros, dtype_of(value)), emit.ints([1, n])),
            axis=0,
        )
        for value, n in zip(rows, (4, 1), strict=True)
    ]
    rois, probs = _pick(emit, order, found)
    return rois, probs, emit("Max", counts, emit.number(1, "int32"))


def _decode_boxes(emit: Nodes, anchors: Value, delta: Value, extra: float) -> Value:
    """Decode boxes from their offsets to anchors; the growth is limited."""
    low, high = (emit.cut(anchors, [-1], [at], [at + 2]) for at in (0, 2))
    shift, growth = (emit.cut(delta, [-1], [at], [at + 2]) for at in (0, 2))
    half = emit.number(0.5, anchors)
    sides = emit("Add", emit("Sub", high, low), emit.number(extra, anchors))
    middle = emit("Add", low, emit("Mul", sides, half))
    middle = emit("Add", middle, emit("Mul", shift, sides))
    grown = emit("Exp", emit("Min", growth, emit.number(math.log(1000 / 16), anchors)))
    radius = emit("Mul", emit("Mul", grown, sides), half)
    end = emit("Sub", emit("Add", middle, radius), emit.number(extra, anchors))
    return emit("Concat", emit("Sub", middle, radius), end, axis=-1)


def _large(
    emit: Nodes, boxes: Value, im_shape: Value, sizes: Value, least: float, pixel_offset: bool
) -> Value:
    """Mark boxes with sides of `least` or more, whose center is inside the image."""
    extra = emit.number(1 if pixel_offset else 0, boxes)
    low, high = (emit.cut(boxes, [2], [at], [at + 2]) for at in (0, 2))
    sides = emit("Sub", high, low)
    own = sides
    if sizes_of(im_shape)[1] > 2:
        ratio = emit.cut(im_shape, [1], [2], [LAST])
        own = emit("Div", sides, emit.unsqueeze(ratio, 1))
    good = emit("GreaterOrEqual", emit("Add", own, extra), emit.number(least, boxes))
    if pixel_offset:
        half = emit("Mul", emit("Add", sides, extra), emit.number(0.5, boxes))
        good = emit("And", good, emit("LessOrEqual", emit("Add", low, half), sizes))
    worst = emit("ReduceMin", emit.cast(good, "int32"), emit.ints([2]), keepdims=0)
    return emit.cast(worst, "bool")


@exports(ops.DistributeFpnProposals)
def distribute_fpn_proposals(
    emit: Nodes,
    fpn_rois: Value,
    rois_num: Value | None,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool,
) -> tuple[Value, ...]:
    """Assign each box to a level: the number of powers of 2 that its side reaches."""
    low, high = (emit.cut(fpn_rois, [1], [at], [at + 2]) for at in (0, 2))
    sides, zero = emit("Sub", high, low), emit.number(0, fpn_rois)
    swapped = emit("ReduceMin", sides, emit.ints([1]), keepdims=0)
    sides = emit("Add", sides, emit.number(1 if pixel_offset else 0, fpn_rois))
    area = emit("ReduceProd", sides, emit.ints([1]), keepdims=0)
    area = emit("Where", emit("Less", swapped, zero), zero, area)
    share = emit("Div", emit("Sqrt", area), emit.number(refer_scale, fpn_rois))
    share = emit.unsqueeze(emit("Add", share, emit.number(1e-6, fpn_rois)), 1)
    bounds = 2.0 ** np.arange(min_level + 1 - refer_level, max_level + 1 - refer_level)
    reached = emit("GreaterOrEqual", share, emit.constant(bounds.astype(dtype_of(fpn_rois).numpy)))
    level = emit.cast(reached, "int64")
    level = (
        emit("ReduceSum", level, emit.ints([1]), keepdims=0)
        if max_level > min_level
        else emit("Mul", emit.places(fpn_rois), emit.number(0, "int64"))
    )
    places = emit.places(fpn_rois)
    owners = None if rois_num is None else owners_of(emit, emit.ints(rois_num), fpn_rois)
    images = emit.ints([0]) if rois_num is None else emit.range(emit("Size", rois_num))
    groups, boxes, counts = list[Value](), list[Value](), list[Value]()
    for number in range(max_level - min_level + 1):
        own = emit("Equal", level, emit.number(number, "int64"))
        groups.append(emit("Compress", places, own, axis=0))
        boxes.append(emit("Gather", fpn_rois, groups[-1], axis=0))
        image = (
            emit("Mul", groups[-1], emit.number(0, "int64"))
            if owners is None
            else emit("Gather", owners, groups[-1], axis=0)
        )
        counts.append(_counts(emit, image, images))
    order = groups[0] if len(groups) == 1 else emit("Concat", *groups, axis=0)
    restore = emit("ScatterElements", places, order, places, axis=0)
    return *boxes, emit.cast(emit.unsqueeze(restore, 1), "int32"), *counts


@exports(ops.CollectFpnProposals)
def collect_fpn_proposals(
    emit: Nodes,
    rois: tuple[Value, ...],
    scores: tuple[Value, ...],
    rois_num: tuple[Value, ...],
    post_nms_top_n: int,
) -> tuple[Value, Value]:
    def join(values: Sequence[Value]) -> Value:
        return values[0] if len(values) == 1 else emit("Concat", *values, axis=0)

    boxes, marks = join(rois), join([emit.reshape(value, [-1]) for value in scores])
    image = join(
        [
            owners_of(emit, emit.ints(count), value)
            for count, value in zip(rois_num, rois, strict=True)
        ]
    )
    limit = post_nms_top_n if post_nms_top_n > -1 else -1
    _, best = take_first(emit, marks, _at_most(emit, limit, emit("Shape", marks)))
    best = emit("Gather", best, _sort_order(emit, emit("Gather", image, best, axis=0)), axis=0)
    images = emit.range(emit("Size", rois_num[0]))
    own = emit("Gather", image, best, axis=0)
    return emit("Gather", boxes, best, axis=0), _counts(emit, own, images)
