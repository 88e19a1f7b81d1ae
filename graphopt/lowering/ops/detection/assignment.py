"""Choice of the boxes to train on, with NumPy where the data are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection.assignment import GenerateProposalLabels, RpnTargetAssign
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers

Numbers = np.ndarray[Any, Any]
_WHAT = "the number of boxes"
# the tolerance for equal overlaps
_CLOSE = 1e-5


def box_overlaps(boxes: Numbers, others: Numbers) -> Numbers:
    """Compute intersection over union of each pair, [n, m]; corners are pixels."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    common = np.maximum(high - low + 1, 0).prod(-1)
    areas = [(x[:, 2:] - x[:, :2] + 1).prod(-1) for x in (boxes, others)]
    return common / (areas[0][:, None] + areas[1][None] - common)


def _offsets(boxes: Numbers, objects: Numbers, weights: Sequence[float]) -> Numbers:
    """Compute the offsets of objects from boxes, each divided by its weight."""
    sides, wanted = (x[:, 2:] - x[:, :2] + 1 for x in (boxes, objects))
    places = (objects[:, :2] + wanted / 2) - (boxes[:, :2] + sides / 2)
    return np.concatenate([places / sides, np.log(wanted / sides)], 1) / np.asarray(
        weights, boxes.dtype
    )


def _sample(candidates: Numbers, count: int, draw: np.random.Generator | None) -> Numbers:
    """Take the first `count` candidates, or draw that many at random."""
    if draw is None or len(candidates) <= count:
        return candidates[:count]
    return draw.permutation(candidates)[:count]


def _generator(key: Array, use_random: bool) -> np.random.Generator | None:
    return np.random.default_rng(np.asarray(jax.random.key_data(key))) if use_random else None


def parts_of(x: Numbers, lengths: Numbers) -> list[Numbers]:
    """Split rows by image."""
    return np.split(x, np.cumsum(lengths))[:-1]


def join_rows(parts: Sequence[Numbers], *row: int) -> Numbers:
    """Concatenate the rows of all images, possibly none; `row` is the shape of a row."""
    return np.concatenate(parts) if parts else np.zeros((0, *row))


@lowers(RpnTargetAssign)
def rpn_target_assign(
    anchor: Array,
    gt_boxes: Array,
    gt_labels: Array | None,
    is_crowd: Array,
    im_info: Array,
    lengths: Array,
    rpn_batch_size_per_im: int,
    rpn_straddle_thresh: float,
    rpn_fg_fraction: float,
    rpn_positive_overlap: float,
    rpn_negative_overlap: float,
    use_random: bool,
    key: Array,
) -> tuple[Array, ...]:
    anchors, images = concrete(anchor, _WHAT), concrete(im_info, _WHAT)
    sizes = concrete(lengths, _WHAT)
    objects = parts_of(concrete(gt_boxes, _WHAT), sizes)
    crowds = parts_of(concrete(is_crowd, _WHAT).reshape(-1), sizes)
    classes = np.ones(sizes.sum(), np.int32)
    if gt_labels is not None:
        classes = concrete(gt_labels, _WHAT).reshape(-1)
    draw = _generator(key, use_random)
    places, marks, labels, offsets, weights = ([] for _ in range(5))
    for at, (image, own, crowd, kinds) in enumerate(
        zip(images, objects, crowds, parts_of(classes, sizes), strict=True)
    ):
        inside = _inside(anchors, image, rpn_straddle_thresh)
        own, kinds = own[crowd == 0] * image[2], kinds[crowd == 0]
        overlaps = box_overlaps(anchors[inside], own)
        best = overlaps.max(1, initial=0)
        nearest = overlaps.argmax(1) if overlaps.size else np.zeros(len(inside), int)
        is_best = (np.abs(overlaps - overlaps.max(0, initial=0)) < _CLOSE).any(1)
        finds = np.flatnonzero(is_best | (best >= rpn_positive_overlap))
        misses = np.flatnonzero(best < rpn_negative_overlap)
        if rpn_batch_size_per_im > 0 and rpn_fg_fraction > 0:
            finds = _sample(finds, int(rpn_fg_fraction * rpn_batch_size_per_im), draw)
            misses = _sample(misses, rpn_batch_size_per_im - len(finds), draw)
        # An anchor with little overlap finds no object; Paddle keeps a place without weight for it.
        lost = np.isin(finds, misses)
        left = np.sort(finds[~lost])
        located = np.concatenate([np.repeat(finds[:1], lost.sum()), left])
        trained = np.concatenate([left, np.sort(misses)])
        first = at * len(anchors)
        places.append(inside[located] + first)
        marks.append(inside[trained] + first)
        labels.append(np.concatenate([kinds[nearest[left]], np.zeros(len(misses), np.int32)]))
        offsets.append(_offsets(anchors[inside[located]], own[nearest[located]], [1.0] * 4))
        weights.append(np.repeat([0.0, 1.0], [lost.sum(), len(left)])[:, None].repeat(4, 1))
    return (
        jnp.asarray(join_rows(places), "int32"),
        jnp.asarray(join_rows(marks), "int32"),
        jnp.asarray(join_rows(labels)[:, None], "int32"),
        jnp.asarray(join_rows(offsets, 4), anchor.dtype),
        jnp.asarray(join_rows(weights, 4), anchor.dtype),
        jnp.asarray([len(own) for own in places], "int64"),
        jnp.asarray([len(own) for own in marks], "int64"),
    )


def _inside(anchors: Numbers, image: Numbers, margin: float) -> Numbers:
    """Find the anchors inside an image, or at most `margin` outside; all if it is negative."""
    if margin < 0:
        return np.arange(len(anchors))
    low = (anchors[:, :2] >= -margin).all(1)
    high = (anchors[:, 2:] < image[1::-1] + margin).all(1)
    return np.flatnonzero(low & high)


def _imperfect(boxes: Numbers, overlaps: Numbers) -> Numbers:
    """Keep boxes of positive size that overlap no object fully; one zero box if none is left."""
    kept = boxes[(boxes[:, 2:] - boxes[:, :2] + 1 > 0).all(1) & (overlaps < 1)]
    return kept if len(kept) else np.zeros((1, 4), boxes.dtype)


@lowers(GenerateProposalLabels)
def generate_proposal_labels(
    rpn_rois: Array,
    gt_classes: Array,
    is_crowd: Array,
    gt_boxes: Array,
    im_info: Array,
    roi_lengths: Array,
    lengths: Array,
    max_overlap: Array | None,
    batch_size_per_im: int,
    fg_fraction: float,
    fg_thresh: float,
    bg_thresh_hi: float,
    bg_thresh_lo: float,
    bbox_reg_weights: Sequence[float],
    class_nums: int,
    use_random: bool,
    is_cls_agnostic: bool,
    is_cascade_rcnn: bool,
    key: Array,
) -> tuple[Array, ...]:
    sizes = concrete(lengths, _WHAT)
    proposals = parts_of(concrete(rpn_rois, _WHAT), concrete(roi_lengths, _WHAT))
    if is_cascade_rcnn and max_overlap is not None:
        earlier = parts_of(concrete(max_overlap, _WHAT).reshape(-1), concrete(roi_lengths, _WHAT))
        proposals = [_imperfect(*pair) for pair in zip(proposals, earlier, strict=True)]
    objects = parts_of(concrete(gt_boxes, _WHAT), sizes)
    crowds = parts_of(concrete(is_crowd, _WHAT).reshape(-1), sizes)
    classes = parts_of(concrete(gt_classes, _WHAT).reshape(-1), sizes)
    draw = _generator(key, use_random)
    rois, labels, targets, shares = ([] for _ in range(4))
    for image, own, crowd, kinds, boxes in zip(
        concrete(im_info, _WHAT), objects, crowds, classes, proposals, strict=True
    ):
        # in Paddle 1.8, a cascade's boxes begin with the objects, already in their scale
        keeps_first = is_cascade_rcnn and max_overlap is None
        first, rest = np.split(boxes, [len(own)]) if keeps_first else (own, boxes)
        boxes = np.concatenate([first, rest / image[2]])
        overlaps = box_overlaps(boxes, own)
        best = overlaps.max(1, initial=0)
        share = best.copy()
        best[: len(own)][crowd[: len(boxes)] != 0] = -1
        if is_cascade_rcnn:
            best[(boxes[:, 2:] - boxes[:, :2] + 1 <= 0).any(1)] = -np.inf
        near = np.abs(overlaps - best[:, None]) < _CLOSE
        finds = np.flatnonzero(best >= fg_thresh)
        misses = np.flatnonzero((best < fg_thresh) & (best >= bg_thresh_lo) & (best < bg_thresh_hi))
        if not is_cascade_rcnn:
            finds = _sample(finds, math.floor(batch_size_per_im * fg_fraction), draw)
            misses = _sample(misses, batch_size_per_im - len(finds), draw)
        found = near[finds].argmax(1) if len(own) else np.zeros(0, int)
        trained = np.concatenate([finds, misses])
        chosen = boxes[trained]
        rois.append(chosen * image[2])
        shares.append(share[trained])
        labels.append(np.concatenate([kinds[found], np.zeros(len(misses), kinds.dtype)]))
        offsets = np.zeros_like(chosen)
        offsets[: len(finds)] = _offsets(boxes[finds], own[found], bbox_reg_weights)
        targets.append(offsets)
    label, offset = join_rows(labels), join_rows(targets, 4)
    place = np.minimum(label, 1) if is_cls_agnostic else label
    is_own = (np.arange(class_nums) == place[:, None]) & (label > 0)[:, None]
    wide = (is_own[..., None] * offset[:, None]).reshape(len(label), 4 * class_nums)
    weight = jnp.asarray(is_own.repeat(4, 1), rpn_rois.dtype)
    return (
        jnp.asarray(join_rows(rois, 4), rpn_rois.dtype),
        jnp.asarray(label[:, None], "int32"),
        jnp.asarray(wide, rpn_rois.dtype),
        *(weight, weight),
        jnp.asarray(join_rows(shares), rpn_rois.dtype),
        jnp.asarray([len(own) for own in rois], "int64"),
    )
