"""Selection of boxes, with NumPy where the data are known (see `lowering/dynamic.py`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import numpy as jnp

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.detection import proposals as ops
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.detection.assignment import join_rows
from graphopt.lowering.registry import lowers

Numbers = np.ndarray[Any, Any]
Picked = list[tuple[float, int, int]]
TOGETHER = 64
"""The number of boxes whose overlaps are computed at once."""


def _areas(boxes: Numbers, extra: float) -> Numbers:
    """Compute the areas of boxes; 0 for those with swapped corners."""
    sides = boxes[..., 2:4] - boxes[..., :2]
    return np.where((sides < 0).any(-1), 0, (sides[..., 0] + extra) * (sides[..., 1] + extra))


def overlaps(some: Numbers, others: Numbers, extra: float) -> Numbers:
    """Compute intersection over union of boxes with others; corners are along the last axis."""
    one, two = (np.ascontiguousarray(np.moveaxis(boxes, -1, 0)) for boxes in (some, others))
    width, height = (
        np.minimum(one[i + 2], two[i + 2]) - np.maximum(one[i], two[i]) for i in (0, 1)
    )
    common = np.where((width < 0) | (height < 0), 0, (width + extra) * (height + extra))
    union = _areas(some, extra) + _areas(others, extra) - common
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(common > 0, common / union, 0)


def _suppress(
    boxes: Numbers, order: Numbers, threshold: float, eta: float, extra: float
) -> list[int]:
    """Apply non-maximum suppression to boxes from best to worst, some at a time."""
    kept: list[int] = []
    for first in range(0, len(order), TOGETHER):
        places = order[first : first + TOGETHER]
        some = boxes[places][:, None]
        # each box's largest overlap with the boxes kept so far
        largest = np.max(overlaps(some, boxes[kept], extra), axis=1, initial=-np.inf)
        among = overlaps(some, boxes[places], extra)
        for number, at in enumerate(places.tolist()):
            if largest[number] <= threshold:
                kept.append(at)
                largest = np.maximum(largest, among[number])
                if eta < 1 and threshold > 0.5:
                    threshold *= eta
    return kept


def _best(scores: Numbers, threshold: float, count: int) -> Numbers:
    """Find the indices of scores above the threshold, best first, `count` at most."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > threshold]
    return order[:count] if count > -1 else order


def _tables(picked: list[list[Any]], offsets: list[list[int]], dtype: Any) -> tuple[Array, ...]:
    """Pack the rows, their indices, and the number of rows of each image into arrays."""
    rows = [row for image in picked for row in image]
    places = [place for image in offsets for place in image]
    return (
        jnp.asarray(np.array(rows, dtype).reshape(-1, 6)),
        jnp.asarray(np.array(places, np.int32).reshape(-1, 1)),
        jnp.asarray([len(image) for image in picked], np.int32),
    )


@lowers(ops.Nms)
def nms(x: Array, threshold: float) -> Array:
    boxes = concrete(x, "the number of boxes")
    kept = _suppress(boxes, np.arange(len(boxes)), threshold, 1.0, 0.0)
    return jnp.asarray(kept, "int64")


@lowers(ops.MulticlassNms)
def multiclass_nms(
    bboxes: Array,
    scores: Array,
    rois_num: Array | None,
    background_label: int,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    normalized: bool,
    nms_eta: float,
) -> tuple[Array, ...]:
    boxes, marks = (concrete(x, "the number of boxes") for x in (bboxes, scores))
    extra = 0.0 if normalized else 1.0
    counts = None if rois_num is None else concrete(rois_num, "the number of boxes").reshape(-1)
    ends = [] if counts is None else np.cumsum(counts).tolist()
    rows, places = list[list[Any]](), list[list[int]]()
    for image in range(len(ends) if counts is not None else len(boxes)):
        start = 0 if counts is None else ends[image] - int(counts[image])
        if marks.ndim == 3:
            own, of_class = boxes[image], marks[image]
        else:
            own, of_class = boxes[start : ends[image]], marks[start : ends[image]].T
        picked: Picked = []
        for label, score in enumerate(of_class):
            if label == background_label:
                continue
            candidates = own if marks.ndim == 3 else own[:, label]
            order = _best(score, score_threshold, nms_top_k)
            chosen = _suppress(candidates, order, nms_threshold, nms_eta, extra)
            picked += [(float(score[at]), label, at) for at in chosen]
        if -1 < keep_top_k < len(picked):
            picked = sorted(picked, key=lambda p: -p[0])[:keep_top_k]
            picked.sort(key=lambda p: p[1])
        if marks.ndim == 2:  # Paddle sorts the rows of a class by position
            picked.sort(key=lambda p: p[1:])
        if marks.ndim == 3:
            rows.append([[label, of_class[label][at], *own[at]] for _, label, at in picked])
            places.append([image * marks.shape[2] + at for _, _, at in picked])
        else:
            rows.append([[label, of_class[label][at], *own[at, label]] for _, label, at in picked])
            places.append([(start + at) * marks.shape[1] + label for _, label, at in picked])
    return _tables(rows, places, boxes.dtype)


@lowers(ops.MatrixNms)
def matrix_nms(
    bboxes: Array,
    scores: Array,
    background_label: int,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool,
    gaussian_sigma: float,
    normalized: bool,
) -> tuple[Array, ...]:
    boxes, marks = (concrete(x, "the number of boxes") for x in (bboxes, scores))
    extra = 0.0 if normalized else 1.0
    rows, places = list[list[Any]](), list[list[int]]()
    for image, (own, of_class) in enumerate(zip(boxes, marks, strict=True)):
        picked: Picked = []
        for label, score in enumerate(of_class):
            if label == background_label:
                continue
            order = _best(score, score_threshold, nms_top_k)
            decayed = score[order] * _decay(own[order], use_gaussian, gaussian_sigma, extra)
            found = zip(order.tolist(), decayed.tolist(), strict=True)
            picked += [(value, label, at) for at, value in found if value > post_threshold]
        picked.sort(key=lambda p: -p[0])
        picked = picked[:keep_top_k] if keep_top_k > -1 else picked
        rows.append([[label, value, *own[at]] for value, label, at in picked])
        places.append([image * marks.shape[2] + at for _, _, at in picked])
    return _tables(rows, places, boxes.dtype)


def _decay(boxes: Numbers, gaussian: bool, sigma: float, extra: float) -> Numbers:
    """Compute the factor that decays the score of each box, from best to worst."""
    factors, covered = np.ones(len(boxes), boxes.dtype), np.zeros(len(boxes), boxes.dtype)
    for at in range(1, len(boxes)):
        shares = overlaps(boxes[at], boxes[:at], extra)
        covered[at] = shares.max()
        before = covered[:at]
        if gaussian:
            decay = np.exp((before**2 - shares**2) * sigma)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                decay = (1 - shares) / (1 - before)
        factors[at] = min(1.0, np.nanmin(decay))
    return factors


@lowers(ops.GenerateProposals)
def generate_proposals(
    scores: Array,
    bbox_deltas: Array,
    im_shape: Array,
    anchors: Array,
    variances: Array,
    pre_nms_top_n: int,
    post_nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
    pixel_offset: bool,
) -> tuple[Array, ...]:
    what = "the number of boxes"
    marks, deltas, sizes = (concrete(x, what) for x in (scores, bbox_deltas, im_shape))
    bases, spreads = (concrete(x, what).reshape(-1, 4) for x in (anchors, variances))
    extra = 1.0 if pixel_offset else 0.0
    rows, own_scores = list[Numbers](), list[Numbers]()
    for score, delta, size in zip(marks, deltas, sizes, strict=True):
        score = score.transpose(1, 2, 0).reshape(-1)
        delta = delta.reshape(-1, 4, *delta.shape[1:]).transpose(2, 3, 0, 1).reshape(-1, 4)
        order = np.argsort(-score, kind="stable")
        order = order[:pre_nms_top_n] if 0 < pre_nms_top_n < len(order) else order
        boxes = _decode_boxes(bases[order], delta[order] * spreads[order], extra)
        limits = np.tile(size[1::-1] - extra, 2).astype(boxes.dtype)
        boxes = np.clip(boxes, 0, limits)
        kept = order[_large(boxes, size, max(min_size, 1.0), pixel_offset)]
        boxes = boxes[_large(boxes, size, max(min_size, 1.0), pixel_offset)]
        if not len(boxes):
            rows.append(np.zeros((1, 4), boxes.dtype))
            own_scores.append(np.zeros((1, 1), boxes.dtype))
            continue
        if nms_thresh > 0:
            chosen = _suppress(boxes, np.arange(len(boxes)), nms_thresh, eta, extra)
            chosen = chosen[:post_nms_top_n] if 0 < post_nms_top_n < len(chosen) else chosen
            boxes, kept = boxes[chosen], kept[chosen]
        rows.append(boxes)
        own_scores.append(score[kept][:, None])
    counts = jnp.asarray([len(image) for image in rows], np.int32)
    found, of_found = join_rows(rows, 4), join_rows(own_scores, 1)
    return jnp.asarray(found, scores.dtype), jnp.asarray(of_found, scores.dtype), counts


def _decode_boxes(anchors: Numbers, delta: Numbers, extra: float) -> Numbers:
    """Decode boxes from their offsets from anchors; growth is limited."""
    sides = anchors[:, 2:] - anchors[:, :2] + np.asarray(extra, anchors.dtype)
    middle = anchors[:, :2] + sides / 2 + delta[:, :2] * sides
    half = np.exp(np.minimum(delta[:, 2:], math.log(1000 / 16))) * sides / 2
    return np.concatenate([middle - half, middle + half - extra], 1).astype(anchors.dtype)


def _large(boxes: Numbers, size: Numbers, least: float, pixel_offset: bool) -> Numbers:
    """True for boxes with sides of at least `least`.

    With `pixel_offset` their center must be inside the image, too. An image with a scale counts
    sides in its original size.
    """
    extra, ratio = (1 if pixel_offset else 0), (size[2] if len(size) > 2 else 1)
    sides = (boxes[:, 2:] - boxes[:, :2]) / ratio + extra
    inside = boxes[:, :2] + (boxes[:, 2:] - boxes[:, :2] + extra) / 2 <= size[1::-1]
    good = (sides >= least) & inside if pixel_offset else sides >= least
    return np.all(good, axis=1, keepdims=False)


@lowers(ops.DistributeFpnProposals)
def distribute_fpn_proposals(
    fpn_rois: Array,
    rois_num: Array | None,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool,
) -> tuple[Array, ...]:
    what = "the number of boxes"
    boxes = concrete(fpn_rois, what)
    counts = [len(boxes)] if rois_num is None else concrete(rois_num, what).reshape(-1).tolist()
    image = np.repeat(np.arange(len(counts)), counts)
    side = np.sqrt(_areas(boxes, 1.0 if pixel_offset else 0.0))
    with np.errstate(divide="ignore"):
        level = np.floor(np.log2(side / refer_scale + 1e-6) + refer_level)
    level = np.clip(level, min_level, max_level).astype(int)
    groups = [np.flatnonzero(level == each) for each in range(min_level, max_level + 1)]
    restore = np.empty(len(boxes), np.int32)
    restore[np.concatenate(groups)] = np.arange(len(boxes))
    per_image = [np.bincount(image[group], minlength=len(counts)) for group in groups]
    return (
        *(jnp.asarray(boxes[group]) for group in groups),
        jnp.asarray(restore[:, None]),
        *(jnp.asarray(found, np.int32) for found in per_image),
    )


@lowers(ops.CollectFpnProposals)
def collect_fpn_proposals(
    rois: tuple[Array, ...],
    scores: tuple[Array, ...],
    rois_num: tuple[Array, ...],
    post_nms_top_n: int,
) -> tuple[Array, Array]:
    what = "the number of boxes"
    boxes = np.concatenate([concrete(x, what) for x in rois])
    marks = np.concatenate([concrete(x, what).reshape(-1) for x in scores])
    counts = [concrete(x, what).reshape(-1) for x in rois_num]
    image = np.concatenate([np.repeat(np.arange(len(count)), count) for count in counts])
    if len(image) != len(boxes):
        raise ProgramError(
            f"collect_fpn_proposals: the images have {len(image)} boxes by their numbers, but "
            f"{len(boxes)} boxes were given"
        )
    best = np.argsort(-marks, kind="stable")[:post_nms_top_n]
    best = best[np.argsort(image[best], kind="stable")]
    found = np.bincount(image[best], minlength=len(counts[0]))
    return jnp.asarray(boxes[best]), jnp.asarray(found, np.int32)


@lowers(ops.LocalityAwareNms)
def locality_aware_nms(
    bboxes: Array,
    scores: Array,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    normalized: bool,
    nms_eta: float,
) -> tuple[Array, Array]:
    extra = 0.0 if normalized else 1.0
    images = concrete(bboxes, "the number of boxes"), concrete(scores, "the number of boxes")
    rows, places = list[list[Any]](), list[list[int]]()
    for boxes, marks in zip(*images, strict=True):
        merged, score = _merge_boxes(boxes, marks[0], nms_threshold, extra)
        order = _best(score, score_threshold, nms_top_k)
        chosen = _suppress(merged, order, nms_threshold, nms_eta, extra)
        chosen = chosen[:keep_top_k] if keep_top_k > -1 else chosen
        rows.append([[0, score[at], *merged[at]] for at in chosen])
        places.append(chosen)
    out, _, counts = _tables(rows, places, images[0].dtype)
    return out, counts


def _merge_boxes(
    boxes: Numbers, scores: Numbers, threshold: float, extra: float
) -> tuple[Numbers, Numbers]:
    """Merge each box that overlaps with the previous result into it, weighted by score."""
    found: list[Numbers] = []
    marks: list[Any] = []
    for box, score in zip(boxes, scores, strict=True):
        if found and overlaps(box, found[-1][None], extra)[0] > threshold:
            total = marks[-1] + score
            found[-1] = (found[-1] * marks[-1] + box * score) / total
            marks[-1] = total
        else:
            found.append(box)
            marks.append(score)
    return np.array(found, boxes.dtype).reshape(-1, 4), np.array(marks, scores.dtype)


@lowers(ops.RetinanetDetectionOutput)
def retinanet_detection_output(
    bboxes: tuple[Array, ...],
    scores: tuple[Array, ...],
    anchors: tuple[Array, ...],
    im_info: Array,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    nms_eta: float,
) -> tuple[Array, Array]:
    what = "the number of boxes"
    maps = [
        tuple(concrete(x, what) for x in parts)
        for parts in zip(bboxes, scores, anchors, strict=True)
    ]
    rows, places = list[list[Any]](), list[list[int]]()
    for image, (height, width, ratio) in enumerate(concrete(im_info, what)):
        limits = np.tile([round(width / ratio) - 1, round(height / ratio) - 1], 2)
        found = list[Numbers]()
        for number, (deltas, marks, bases) in enumerate(maps):
            least = score_threshold if number < len(maps) - 1 else 0.0
            flat = marks[image].reshape(-1)
            order = _best(flat, least, nms_top_k)
            at, label = np.divmod(order, marks.shape[2])
            boxes = _decode_boxes(bases[at], deltas[image][at], 1.0) / ratio
            columns = (label[:, None] + 1, flat[order][:, None], np.clip(boxes, 0, limits))
            found.append(np.concatenate(columns, 1))
        every = np.concatenate(found)
        picked: list[Numbers] = []
        for label in np.unique(every[:, 0]):
            own = every[every[:, 0] == label]
            order = _best(own[:, 1], -math.inf, -1)
            picked += [own[at] for at in _suppress(own[:, 2:], order, nms_threshold, nms_eta, 1.0)]
        picked.sort(key=lambda row: -row[1])
        rows.append(picked[:keep_top_k] if keep_top_k > -1 else picked)
        places.append([0] * len(rows[-1]))
    out, _, counts = _tables(rows, places, maps[0][0].dtype)
    return out, counts
