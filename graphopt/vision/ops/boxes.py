"""Anchors, box decoding and box selection (paddle.vision.ops)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.data_sized import masked_select
from graphopt.tensor.manipulation import cast, gather, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, max, min, multiply, scale, subtract
from graphopt.tensor.search import argsort
from graphopt.tensor.special import isin

Pair = tuple[Variable, Variable]


def yolo_loss(
    x: Variable,
    gt_box: Variable,
    gt_label: Variable,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Variable | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Variable:
    """Compute YOLOv3's loss [n] of its output x [n, a (5 + classes), h, w] against true boxes.

    `gt_box` [n, b, 4] has centers, widths and heights as fractions of the image, `gt_label` is
    int32 [n, b], and `gt_score` [n, b] weighs the boxes. `anchors` lists widths and heights, of
    which `anchor_mask` selects the ones in x. A cell whose box overlaps a true box by more than
    `ignore_thresh` is not penalized for predicting an object. Paddle pages:
    paddle.vision.ops.yolo_loss, fluid.layers.yolov3_loss.
    """
    function = "yolo_loss"
    inputs = {
        "X": arguments.variable(x, "x", function),
        "GTBox": arguments.variable(gt_box, "gt_box", function),
        "GTLabel": arguments.variable(gt_label, "gt_label", function),
    }
    if gt_score is not None:
        inputs["GTScore"] = arguments.variable(gt_score, "gt_score", function)
    attrs = {
        "anchors": arguments.integers(anchors, "anchors", function),
        "anchor_mask": arguments.integers(anchor_mask, "anchor_mask", function),
        "class_num": arguments.integer(class_num, "class_num", function),
        "ignore_thresh": arguments.number(ignore_thresh, "ignore_thresh", function),
        "downsample_ratio": arguments.integer(downsample_ratio, "downsample_ratio", function),
        "use_label_smooth": arguments.flag(use_label_smooth, "use_label_smooth", function),
        "scale_x_y": arguments.number(scale_x_y, "scale_x_y", function),
    }
    outs = ("Loss", "ObjectnessMask", "GTMatchMask")
    return LayerHelper("yolov3_loss", name).emit_all("yolov3_loss", inputs, attrs, outs)[0]


def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> Pair:
    """Decode YOLOv3's output to boxes [n, a * h * w, 4] and scores [n, a * h * w, classes].

    x is [n, a * (5 + classes), h, w], with `iou_aware` [n, a * (6 + classes), h, w]; `img_size`
    int32 [n, 2] has the heights and widths of the images. Boxes with less confidence than
    `conf_thresh` are zeros. Paddle page: paddle.vision.ops.yolo_box.
    """
    function = "yolo_box"
    inputs = {
        "X": arguments.variable(x, "x", function),
        "ImgSize": arguments.variable(img_size, "img_size", function),
    }
    attrs = {
        "anchors": arguments.integers(anchors, "anchors", function),
        "class_num": arguments.integer(class_num, "class_num", function),
        "conf_thresh": arguments.number(conf_thresh, "conf_thresh", function),
        "downsample_ratio": arguments.integer(downsample_ratio, "downsample_ratio", function),
        "clip_bbox": arguments.flag(clip_bbox, "clip_bbox", function),
        "scale_x_y": arguments.number(scale_x_y, "scale_x_y", function),
        "iou_aware": arguments.flag(iou_aware, "iou_aware", function),
        "iou_aware_factor": arguments.number(iou_aware_factor, "iou_aware_factor", function),
    }
    made = LayerHelper(function, name).emit_all(function, inputs, attrs, ("Boxes", "Scores"))
    return made[0], made[1]


def _floats(value: Any, name: str, function: str) -> list[float]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [arguments.number(item, name, function) for item in items]


def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Any,
    max_sizes: Any = None,
    aspect_ratios: Any = (1.0,),
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
    name: str | None = None,
) -> Pair:
    """Generate boxes of several sizes and shapes at each pixel of a feature map [n, c, h, w].

    The boxes and their variances are [h, w, boxes, 4], in fractions of the image. Raises ValueError
    unless `steps` are a width and a height. Paddle page: paddle.vision.ops.prior_box.
    """
    function = "prior_box"
    apart = _floats(steps, "steps", function)
    if len(apart) != 2:
        raise ValueError(f"{function}(): 'steps' should be (step_w, step_h), found {steps}")
    inputs = {
        "Input": arguments.variable(input, "input", function),
        "Image": arguments.variable(image, "image", function),
    }
    attrs: dict[str, Any] = {
        "min_sizes": _floats(min_sizes, "min_sizes", function),
        "aspect_ratios": _floats(aspect_ratios, "aspect_ratios", function),
        "variances": _floats(variance, "variance", function),
        "flip": arguments.flag(flip, "flip", function),
        "clip": arguments.flag(clip, "clip", function),
        "step_w": apart[0],
        "step_h": apart[1],
        "offset": arguments.number(offset, "offset", function),
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }
    largest = _floats(max_sizes or (), "max_sizes", function)
    if largest and largest[0] > 0:
        attrs["max_sizes"] = largest
    outs = ("Boxes", "Variances")
    made = LayerHelper(function, name).emit_all(function, inputs, attrs, outs, stop_gradient=True)
    return made[0], made[1]


def box_coder(
    prior_box: Variable,
    prior_box_var: Any,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    name: str | None = None,
) -> Variable:
    """Encode boxes as offsets from prior boxes, or decode them (paddle.vision.ops.box_coder).

    Encoding maps targets [n, 4] and priors [m, 4] to [n, m, 4]; decoding maps targets [n, m, 4] and
    priors [m, 4] (`axis` 0) or [n, 4] (`axis` 1) to boxes [n, m, 4]. `prior_box_var` is a Variable
    like the priors, or four numbers; TypeError for another type.
    """
    function = "box_coder"
    inputs = {
        "PriorBox": arguments.variable(prior_box, "prior_box", function),
        "TargetBox": arguments.variable(target_box, "target_box", function),
    }
    options = ("encode_center_size", "decode_center_size")
    attrs: dict[str, Any] = {
        "code_type": arguments.choice(code_type, "code_type", function, options),
        "box_normalized": arguments.flag(box_normalized, "box_normalized", function),
        "axis": arguments.integer(axis, "axis", function),
    }
    if isinstance(prior_box_var, Variable):
        inputs["PriorBoxVar"] = prior_box_var
    elif isinstance(prior_box_var, (list, tuple)) and len(prior_box_var) == 4:
        attrs["variance"] = _floats(prior_box_var, "prior_box_var", function)
    else:
        raise TypeError(
            f"{function}(): 'prior_box_var' must be a Variable or four numbers, found "
            f"{prior_box_var!r}"
        )
    return LayerHelper(function, name).emit(function, inputs, attrs, out="OutputBox")


def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
    rois_num: Variable | None = None,
    name: str | None = None,
) -> tuple[list[Variable], Variable, list[Variable] | None]:
    """Distribute boxes [r, 4] over the levels of a feature pyramid by their size.

    The results are the boxes of each level, the index [r, 1] of each box in the concatenated levels
    and, with `rois_num` int32 [n], the counts [n] of each level. Raises ValueError unless there are
    two levels or more. Paddle page: paddle.vision.ops.distribute_fpn_proposals.
    """
    function = "distribute_fpn_proposals"
    attrs = {
        "min_level": arguments.integer(min_level, "min_level", function),
        "max_level": arguments.integer(max_level, "max_level", function),
        "refer_level": arguments.integer(refer_level, "refer_level", function),
        "refer_scale": arguments.integer(refer_scale, "refer_scale", function),
        "pixel_offset": arguments.flag(pixel_offset, "pixel_offset", function),
    }
    levels = max_level - min_level + 1
    if min_level < 1 or levels < 2:
        raise ValueError(
            f"{function}(): levels from 1 on, two or more, are expected; found {min_level} to "
            f"{max_level}"
        )
    inputs = {"FpnRois": arguments.variable(fpn_rois, "fpn_rois", function)}
    helper = LayerHelper(function, name)
    boxes = [helper.temporary() for _ in range(levels)]
    places = helper.temporary()
    outputs: dict[str, Any] = {"MultiFpnRois": boxes, "RestoreIndex": places}
    numbers = None
    if rois_num is not None:
        inputs["RoisNum"] = arguments.variable(rois_num, "rois_num", function)
        numbers = outputs["MultiLevelRoIsNum"] = [helper.temporary() for _ in range(levels)]
    helper.append_op(function, inputs, outputs, attrs)
    return boxes, places, numbers


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    img_size: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = False,
    return_rois_num: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable | None]:
    """Move anchors by `bbox_deltas` [n, 4 a, h, w], and select the best by scores [n, a, h, w].

    The results are boxes [r, 4], their scores [r, 1] and, with `return_rois_num`, the count of each
    image. The number r depends on the data. Paddle page: paddle.vision.ops.generate_proposals.
    """
    function = "generate_proposals"
    given = {
        "Scores": (scores, "scores"),
        "BboxDeltas": (bbox_deltas, "bbox_deltas"),
        "ImShape": (img_size, "img_size"),
        "Anchors": (anchors, "anchors"),
        "Variances": (variances, "variances"),
    }
    inputs = {slot: arguments.variable(*value, function) for slot, value in given.items()}
    attrs = {
        "pre_nms_topN": arguments.integer(pre_nms_top_n, "pre_nms_top_n", function),
        "post_nms_topN": arguments.integer(post_nms_top_n, "post_nms_top_n", function),
        "nms_thresh": arguments.number(nms_thresh, "nms_thresh", function),
        "min_size": arguments.number(min_size, "min_size", function),
        "eta": arguments.number(eta, "eta", function),
        "pixel_offset": arguments.flag(pixel_offset, "pixel_offset", function),
    }
    type = "generate_proposals_v2"
    outs = ("RpnRois", "RpnRoiProbs", "RpnRoisNum")
    made = LayerHelper(type, name).emit_all(type, inputs, attrs, outs, stop_gradient=True)
    return made[0], made[1], made[2] if return_rois_num else None


def nms(
    boxes: Variable,
    iou_threshold: float = 0.3,
    scores: Variable | None = None,
    category_idxs: Variable | None = None,
    categories: Sequence[int] | None = None,
    top_k: int | None = None,
) -> Variable:
    """Return int64 indices of the boxes [n, 4] that no earlier, or better, kept box overlaps.

    With `scores` [n] they are in descending order of score. With `category_idxs` int64 [n] and the
    list `categories`, only boxes of the same category suppress each other; `top_k` limits the
    result. The number of indices depends on the data. Paddle page: paddle.vision.ops.nms.
    """
    arguments.variable(boxes, "boxes", "nms")
    threshold = arguments.number(iou_threshold, "iou_threshold", "nms")
    if scores is None:
        return _emit_nms(boxes, threshold)
    order = argsort(arguments.variable(scores, "scores", "nms"), descending=True)
    if category_idxs is None:
        return gather(order, _emit_nms(gather(boxes, order), threshold))
    if categories is None:
        raise ValueError("nms(): give 'categories', the list of all categories, as well")
    own = gather(arguments.variable(category_idxs, "category_idxs", "nms"), order)
    # shift the boxes of each category to a region of their own
    side = scale(subtract(max(boxes), min(boxes)), 1.0, 1.0)
    shift = unsqueeze(multiply(cast(own, boxes.dtype), side), [1])
    kept = _emit_nms(add(gather(boxes, order), shift), threshold)
    known = isin(gather(own, kept), assign(np.asarray(categories, own.dtype.numpy)))
    kept = gather(order, masked_select(kept, known))
    return kept if top_k is None else slice_(kept, [0], [0], [top_k])


def _emit_nms(boxes: Variable, threshold: float) -> Variable:
    helper = LayerHelper("nms")
    return helper.emit("nms", {"Boxes": boxes}, {"iou_threshold": threshold}, out="KeepBoxesIdxs")


def matrix_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    return_rois_num: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable | None, Variable | None]:
    """Return rows (class, score, box) for boxes [n, b, 4] that score above `post_threshold`.

    Overlap with better boxes lowers the scores [n, classes, b], for all boxes in one step. The
    other results, where requested, are the number of rows of each image and the index of each row's
    box. Paddle page: paddle.vision.ops.matrix_nms.
    """
    function = "matrix_nms"
    inputs = {
        "BBoxes": arguments.variable(bboxes, "bboxes", function),
        "Scores": arguments.variable(scores, "scores", function),
    }
    attrs = {
        "score_threshold": arguments.number(score_threshold, "score_threshold", function),
        "post_threshold": arguments.number(post_threshold, "post_threshold", function),
        "nms_top_k": arguments.integer(nms_top_k, "nms_top_k", function),
        "keep_top_k": arguments.integer(keep_top_k, "keep_top_k", function),
        "use_gaussian": arguments.flag(use_gaussian, "use_gaussian", function),
        "gaussian_sigma": arguments.number(gaussian_sigma, "gaussian_sigma", function),
        "background_label": arguments.integer(background_label, "background_label", function),
        "normalized": arguments.flag(normalized, "normalized", function),
    }
    outs = ("Out", "RoisNum", "Index")
    made = LayerHelper(function, name).emit_all(function, inputs, attrs, outs, stop_gradient=True)
    return made[0], made[1] if return_rois_num else None, made[2] if return_index else None
