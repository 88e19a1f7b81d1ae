"""Proposals of two-stage detectors, and the selection of training boxes (layers.detection).

The number of boxes depends on the data: such programs run op by op (see
`graphopt.tensor.data_sized`). The boxes of each image are a sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level, variable_of
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.manipulation import cast, gather, reshape
from graphopt.tensor.manipulation import slice as slice_


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    im_info: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    name: str | None = None,
    return_rois_num: bool = False,
) -> Any:
    """Select the boxes that are likely to hold an object [boxes, 4], and their scores [boxes, 1].

    `scores` [n, a, h, w] and offsets `bbox_deltas` [n, 4 a, h, w] belong to `anchors` and
    `variances` [h, w, a, 4]; `im_info` [n, 3] has the height, width and scale of the images. With
    `return_rois_num`, also return the end of each image's boxes, int64 [n]. Paddle page:
    fluid.layers.generate_proposals.
    """
    function = "generate_proposals"
    given = {
        "Scores": ("scores", scores),
        "BboxDeltas": ("bbox_deltas", bbox_deltas),
        "ImInfo": ("im_info", im_info),
        "Anchors": ("anchors", anchors),
        "Variances": ("variances", variances),
    }
    inputs = {
        slot: arguments.variable(value, own, function) for slot, (own, value) in given.items()
    }
    attrs = {
        "pre_nms_topN": arguments.integer(pre_nms_top_n, "pre_nms_top_n", function),
        "post_nms_topN": arguments.integer(post_nms_top_n, "post_nms_top_n", function),
        "nms_thresh": arguments.number(nms_thresh, "nms_thresh", function),
        "min_size": arguments.number(min_size, "min_size", function),
        "eta": arguments.number(eta, "eta", function),
    }
    outs = ("RpnRois", "RpnRoiProbs", "RpnRoisLod", "RpnRoisNum")
    helper = LayerHelper(function, name)
    boxes, marks, ends, counts = helper.emit_all(function, inputs, attrs, outs, stop_gradient=True)
    for made in (boxes, marks):
        note(made, [_wide(counts).name])
    return (boxes, marks, ends) if return_rois_num else (boxes, marks)


def locality_aware_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
    name: str | None = None,
) -> Variable:
    """Select the boxes of one class that no better one covers: rows (0, score, x, y, x, y).

    Boxes [n, m, 4] are ordered so that the boxes of one object follow each other; they are merged
    first. Scores are [n, 1, m]. Raises UnsupportedError for polygons. Paddle page:
    fluid.layers.locality_aware_nms.
    """
    function = "locality_aware_nms"
    inputs = {
        "BBoxes": arguments.variable(bboxes, "bboxes", function),
        "Scores": arguments.variable(scores, "scores", function),
    }
    attrs = {
        "background_label": arguments.integer(background_label, "background_label", function),
        "score_threshold": arguments.number(score_threshold, "score_threshold", function),
        "nms_top_k": arguments.integer(nms_top_k, "nms_top_k", function),
        "keep_top_k": arguments.integer(keep_top_k, "keep_top_k", function),
        "nms_threshold": arguments.number(nms_threshold, "nms_threshold", function),
        "normalized": arguments.flag(normalized, "normalized", function),
        "nms_eta": arguments.number(nms_eta, "nms_eta", function),
    }
    return _append_detection(LayerHelper(function, name), inputs, attrs)


def _append_detection(
    helper: LayerHelper, inputs: Mapping[str, Any], attrs: Mapping[str, Any]
) -> Variable:
    """Append a detection operator; return its rows, a sequence for each image."""
    outs = ("Out", "OutNumber")
    found, counts = helper.emit_all(helper.layer_type, inputs, attrs, outs, stop_gradient=True)
    return note(found, [_wide(counts).name])


def retinanet_detection_output(
    bboxes: Sequence[Variable],
    scores: Sequence[Variable],
    anchors: Sequence[Variable],
    im_info: Variable,
    score_threshold: float = 0.05,
    nms_top_k: int = 1000,
    keep_top_k: int = 100,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
) -> Variable:
    """Select the detections of RetinaNet: rows (class, score, x, y, x, y), the best first.

    Each feature map has offsets [n, m, 4], scores [n, m, classes] and anchors [m, 4]; `im_info`
    [n, 3] has the height, width and scale of the images. As in Paddle, `nms_eta` is always 1.
    Paddle page: fluid.layers.retinanet_detection_output.
    """
    function = "retinanet_detection_output"
    inputs = {
        "BBoxes": arguments.variables(bboxes, "bboxes", function),
        "Scores": arguments.variables(scores, "scores", function),
        "Anchors": arguments.variables(anchors, "anchors", function),
        "ImInfo": arguments.variable(im_info, "im_info", function),
    }
    attrs = {
        "score_threshold": arguments.number(score_threshold, "score_threshold", function),
        "nms_top_k": arguments.integer(nms_top_k, "nms_top_k", function),
        "keep_top_k": arguments.integer(keep_top_k, "keep_top_k", function),
        "nms_threshold": arguments.number(nms_threshold, "nms_threshold", function),
        "nms_eta": 1.0,
    }
    return _append_detection(LayerHelper(function), inputs, attrs)


def _wide(counts: Variable) -> Variable:
    """Cast numbers of rows to int64, for use as sequence lengths."""
    made = cast(counts, "int64")
    made.stop_gradient = True
    return made


def _counts(rois: Variable, function: str, argument: str) -> Variable:
    """Count the boxes of each image, int32; without lengths all boxes are of one image."""
    if levels_of(rois):
        return cast(of_one_level(rois, function, argument), "int32")
    return cast(slice_(shape_of(rois), [0], [0], [1]), "int32")


def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    name: str | None = None,
) -> tuple[list[Variable], Variable]:
    """Distribute boxes by size over the levels of a pyramid; also return their places there.

    Boxes of size `refer_scale` belong to `refer_level`, boxes half as large to the level below. The
    places are int32 [boxes, 1]. Paddle page: fluid.layers.distribute_fpn_proposals.
    """
    function = "distribute_fpn_proposals"
    rois = arguments.variable(fpn_rois, "fpn_rois", function)
    attrs = {
        "min_level": arguments.integer(min_level, "min_level", function),
        "max_level": arguments.integer(max_level, "max_level", function),
        "refer_level": arguments.integer(refer_level, "refer_level", function),
        "refer_scale": arguments.integer(refer_scale, "refer_scale", function),
        "pixel_offset": True,
    }
    inputs = {"FpnRois": rois, "RoisNum": _counts(rois, function, "fpn_rois")}
    helper = LayerHelper(function, name)
    levels = max(attrs["max_level"] - attrs["min_level"] + 1, 0)
    boxes = [helper.temporary() for _ in range(levels)]
    restore = helper.temporary(stop_gradient=True)
    counts = [helper.temporary(stop_gradient=True) for _ in range(levels)]
    outputs = {"MultiFpnRois": boxes, "RestoreIndex": restore, "MultiLevelRoIsNum": counts}
    helper.append_op(function, inputs, outputs, attrs)
    note(restore, ())
    return [note(own, [_wide(n).name]) for own, n in zip(boxes, counts, strict=True)], restore


def collect_fpn_proposals(
    multi_rois: Sequence[Variable],
    multi_scores: Sequence[Variable],
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    name: str | None = None,
) -> Variable:
    """Collect the best `post_nms_top_n` boxes of all levels of a pyramid, image by image.

    `multi_rois` [boxes, 4] and `multi_scores` [boxes, 1] have one Variable for each level. Paddle
    page: fluid.layers.collect_fpn_proposals.
    """
    function = "collect_fpn_proposals"
    levels = max_level - min_level + 1
    rois = arguments.variables(multi_rois[:levels], "multi_rois", function)
    inputs = {
        "MultiLevelRois": rois,
        "MultiLevelScores": arguments.variables(multi_scores[:levels], "multi_scores", function),
        "MultiLevelRoIsNum": [_counts(own, function, "multi_rois") for own in rois],
    }
    attrs = {"post_nms_topN": arguments.integer(post_nms_top_n, "post_nms_top_n", function)}
    helper = LayerHelper(function, name)
    outs = ("FpnRois", "RoisNum")
    boxes, counts = helper.emit_all(function, inputs, attrs, outs, stop_gradient=True)
    return note(boxes, [_wide(counts).name])


def rpn_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: Variable,
    anchor_var: Variable,
    gt_boxes: Variable,
    is_crowd: Variable,
    im_info: Variable,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_fg_fraction: float = 0.5,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    use_random: bool = True,
) -> tuple[Variable, ...]:
    """Select the anchors that a region proposal network trains on, from all anchors [m, 4].

    The results are the logits [f + b, 1] of f foreground and b background anchors, the predicted
    offsets [f, 4] of the foreground, the classes [f + b, 1], 1 or 0, the target offsets, and their
    weights. An image trains `rpn_batch_size_per_im` anchors, at most `rpn_fg_fraction` of them
    foreground; `anchor_var` has no effect, as in Paddle. Foreground anchors overlap an object by
    `rpn_positive_overlap`, background anchors by less than `rpn_negative_overlap`. Paddle page:
    fluid.layers.rpn_target_assign.
    """
    function = "rpn_target_assign"
    attrs = {
        "rpn_batch_size_per_im": arguments.integer(
            rpn_batch_size_per_im, "rpn_batch_size_per_im", function
        ),
        "rpn_straddle_thresh": arguments.number(
            rpn_straddle_thresh, "rpn_straddle_thresh", function
        ),
        "rpn_fg_fraction": arguments.number(rpn_fg_fraction, "rpn_fg_fraction", function),
        "rpn_positive_overlap": arguments.number(
            rpn_positive_overlap, "rpn_positive_overlap", function
        ),
        "rpn_negative_overlap": arguments.number(
            rpn_negative_overlap, "rpn_negative_overlap", function
        ),
        "use_random": arguments.flag(use_random, "use_random", function),
    }
    inputs = {
        "Anchor": arguments.variable(anchor_box, "anchor_box", function),
        "GtBoxes": arguments.variable(gt_boxes, "gt_boxes", function),
        "IsCrowd": arguments.variable(is_crowd, "is_crowd", function),
        "ImInfo": arguments.variable(im_info, "im_info", function),
    }
    arguments.variable(anchor_var, "anchor_var", function)
    return _append_targets(function, inputs, attrs, bbox_pred, cls_logits, 1)[:5]


def retinanet_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: Variable,
    anchor_var: Variable,
    gt_boxes: Variable,
    gt_labels: Variable,
    is_crowd: Variable,
    im_info: Variable,
    num_classes: int = 1,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> tuple[Variable, ...]:
    """Assign targets as `rpn_target_assign` to all anchors, with `num_classes` logits.

    Classes count from 1. The last result is the number of foreground anchors in each image plus 1,
    int32 [n, 1]. Paddle page: fluid.layers.retinanet_target_assign.
    """
    function = "retinanet_target_assign"
    attrs = {
        "positive_overlap": arguments.number(positive_overlap, "positive_overlap", function),
        "negative_overlap": arguments.number(negative_overlap, "negative_overlap", function),
    }
    inputs = {
        "Anchor": arguments.variable(anchor_box, "anchor_box", function),
        "GtBoxes": arguments.variable(gt_boxes, "gt_boxes", function),
        "GtLabels": arguments.variable(gt_labels, "gt_labels", function),
        "IsCrowd": arguments.variable(is_crowd, "is_crowd", function),
        "ImInfo": arguments.variable(im_info, "im_info", function),
    }
    arguments.variable(anchor_var, "anchor_var", function)
    classes = arguments.integer(num_classes, "num_classes", function)
    return _append_targets(function, inputs, attrs, bbox_pred, cls_logits, classes)


def _append_targets(
    function: str,
    inputs: Mapping[str, Variable],
    attrs: Mapping[str, Any],
    bbox_pred: Variable,
    cls_logits: Variable,
    classes: int,
) -> tuple[Variable, ...]:
    """Append the selection of anchors; return their predictions and targets."""
    given = {**inputs, SLOT: of_one_level(inputs["GtBoxes"], function, "gt_boxes")}
    slots = (
        *("LocationIndex", "ScoreIndex", "TargetLabel", "TargetBBox", "BBoxInsideWeight"),
        *(("ForegroundNumber",) if function == "retinanet_target_assign" else ()),
    )
    helper = LayerHelper(function)
    made = [helper.temporary(stop_gradient=True) for _ in slots]
    lengths = [helper.temporary(stop_gradient=True) for _ in range(2)]
    outputs = {**dict(zip(slots, made, strict=True)), "OutLengths": lengths}
    helper.append_op(function, given, outputs, attrs)
    places, marks, labels, *targets = made
    note(labels, [lengths[1].name])
    for target in targets[:2]:
        note(target, [lengths[0].name])
    for number in targets[2:]:
        note(number, [1])
    logits = reshape(arguments.variable(cls_logits, "cls_logits", function), [-1, classes])
    offsets = reshape(arguments.variable(bbox_pred, "bbox_pred", function), [-1, 4])
    return gather(logits, marks), gather(offsets, places), labels, *targets


def generate_proposal_labels(
    rpn_rois: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_boxes: Variable,
    im_info: Variable,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    class_nums: int | None = None,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
    max_overlap: Variable | None = None,
    return_max_overlap: bool = False,
) -> tuple[Variable, ...]:
    """Select the proposals that the second stage trains on: boxes, classes, offsets, weights.

    Boxes are [n, 4], classes int32 [n, 1] with 0 for the background, offsets and two weights
    [n, 4 class_nums]. The objects `gt_boxes` are proposals too, unless `is_cascade_rcnn` without
    `max_overlap`. A proposal that overlaps an object by `fg_thresh` or more has its class; a
    proposal from `bg_thresh_lo` up to `bg_thresh_hi` is background. As in Paddle 2.0,
    `return_max_overlap` adds the overlap of each box with an object [n], which a later stage of a
    cascade takes as `max_overlap`. Paddle page: fluid.layers.generate_proposal_labels.
    """
    function = "generate_proposal_labels"
    given = {
        "RpnRois": ("rpn_rois", rpn_rois),
        "GtClasses": ("gt_classes", gt_classes),
        "IsCrowd": ("is_crowd", is_crowd),
        "GtBoxes": ("gt_boxes", gt_boxes),
        "ImInfo": ("im_info", im_info),
    }
    inputs = {
        slot: arguments.variable(value, own, function) for slot, (own, value) in given.items()
    }
    inputs["RoiLengths"] = of_one_level(rpn_rois, function, "rpn_rois")
    inputs[SLOT] = of_one_level(gt_boxes, function, "gt_boxes")
    if max_overlap is not None:
        inputs["MaxOverlap"] = arguments.variable(max_overlap, "max_overlap", function)
    attrs = {
        "batch_size_per_im": arguments.integer(batch_size_per_im, "batch_size_per_im", function),
        "fg_fraction": arguments.number(fg_fraction, "fg_fraction", function),
        "fg_thresh": arguments.number(fg_thresh, "fg_thresh", function),
        "bg_thresh_hi": arguments.number(bg_thresh_hi, "bg_thresh_hi", function),
        "bg_thresh_lo": arguments.number(bg_thresh_lo, "bg_thresh_lo", function),
        "bbox_reg_weights": [float(weight) for weight in bbox_reg_weights],
        "class_nums": arguments.integer(class_nums, "class_nums", function),
        "use_random": arguments.flag(use_random, "use_random", function),
        "is_cls_agnostic": arguments.flag(is_cls_agnostic, "is_cls_agnostic", function),
        "is_cascade_rcnn": arguments.flag(is_cascade_rcnn, "is_cascade_rcnn", function),
    }
    slots = ("Rois", "LabelsInt32", "BboxTargets", "BboxInsideWeights", "BboxOutsideWeights")
    outs = (*slots, "MaxOverlapWithGT", "OutLengths")
    *made, counts = LayerHelper(function).emit_all(
        function, inputs, attrs, outs, stop_gradient=True
    )
    if not arguments.flag(return_max_overlap, "return_max_overlap", function):
        del made[-1]
    return tuple(note(each, [counts.name]) for each in made)


def generate_mask_labels(
    im_info: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_segms: Variable,
    rois: Variable,
    labels_int32: Variable,
    num_classes: int,
    resolution: int,
) -> tuple[Variable, Variable, Variable]:
    """Select the boxes with an object, and mask their pixels that belong to it.

    `gt_segms` [points, 2] of three levels has the corners of polygons: the first level counts the
    objects of each image, the second one the polygons of each object, the third one the corners of
    each polygon. `gt_classes` and `is_crowd` [objects, 1] describe the objects, `im_info` [n, 3]
    has height, width and scale of the images; `rois` [boxes, 4] and `labels_int32` [boxes, 1] are
    results of `generate_proposal_labels`. Returns the boxes [n, 4], their numbers in their image,
    int32 [n, 1], and 0 or 1 for each pixel at the place of the class, int32
    [n, num_classes * resolution * resolution], -1 elsewhere. Paddle page:
    fluid.layers.generate_mask_labels. Raises UnsupportedError for a `gt_segms` of other levels.
    """
    function = "generate_mask_labels"
    given = {
        "ImInfo": ("im_info", im_info),
        "GtClasses": ("gt_classes", gt_classes),
        "IsCrowd": ("is_crowd", is_crowd),
        "GtSegms": ("gt_segms", gt_segms),
        "Rois": ("rois", rois),
        "LabelsInt32": ("labels_int32", labels_int32),
    }
    inputs = {
        slot: arguments.variable(value, own, function) for slot, (own, value) in given.items()
    }
    if len(levels_of(gt_segms)) != 3:
        raise UnsupportedError(
            f"{function}(): 'gt_segms' is '{gt_segms.name}' of {len(levels_of(gt_segms))} levels; "
            "declare its feed with lod_level=3"
        )
    for slot, level in ((SLOT, 0), ("PolygonLengths", 1), ("PointLengths", 2)):
        inputs[slot] = variable_of(gt_segms, function, "gt_segms", level)
    inputs["RoiLengths"] = of_one_level(rois, function, "rois")
    attrs = {
        "num_classes": arguments.integer(num_classes, "num_classes", function),
        "resolution": arguments.integer(resolution, "resolution", function),
    }
    outs = ("MaskRois", "RoiHasMaskInt32", "MaskInt32", "OutLengths")
    *made, counts = LayerHelper(function).emit_all(
        function, inputs, attrs, outs, stop_gradient=True
    )
    boxes, places, masks = (note(each, [counts.name]) for each in made)
    return boxes, places, masks
