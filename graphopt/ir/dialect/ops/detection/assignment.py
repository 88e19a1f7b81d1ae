"""Choice of the boxes that two-stage detectors train on, by how they overlap with objects.

Objects are rows of all images, one image after another, and the lengths say how many each image
has; an image is its height, its width and its scale. Programs with these run op by op.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, numbers
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, rank_of, shape_of, show, tensor


def _check(boxes: Tensor, objects: Tensor, is_crowd: Tensor, im_info: Tensor) -> None:
    check_integer("is_crowd", is_crowd)
    if any(shape_of(x)[-1:] not in ((4,), (UNKNOWN,)) for x in (boxes, objects)):
        raise ProgramError(f"expected boxes [n, 4], found {show(boxes)} and {show(objects)}")
    if rank_of(im_info) != 2 or shape_of(im_info)[1] not in (3, UNKNOWN):
        raise ProgramError(f"expected images [n, 3], found {show(im_info)}")


@irdl_op_definition
class RpnTargetAssign(RandomOp, DataSizedOp):
    """The anchors of each image to train on: foreground with an object, or background.

    An anchor is foreground for the object that it overlaps most, if no other anchor overlaps more
    with that object or the overlap is `rpn_positive_overlap` or more; it is background below
    `rpn_negative_overlap`. `rpn_batch_size_per_im` anchors are taken, the first ones or random
    ones, 0 for all; a share `rpn_fg_fraction` of them at most is foreground. Anchors that leave the
    image by `rpn_straddle_thresh` or more are left out, unless it is negative. `gt_labels` are the
    classes of the objects; without them all have class 1. Results: the indices of the foreground
    anchors and of all trained anchors, among the anchors of all images; their classes [n, 1]; the
    offsets of the objects [n, 4] and their weights; the number of both kinds of indices for each
    image.
    Paddle: rpn_target_assign, retinanet_target_assign.
    """

    name = "pd.rpn_target_assign"
    anchor = operand_def(TENSOR)
    gt_boxes = operand_def(TENSOR)
    gt_labels = opt_operand_def(TENSOR)
    is_crowd = operand_def(TENSOR)
    im_info = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    location_index = result_def(TENSOR)
    score_index = result_def(TENSOR)
    target_label = result_def(TENSOR)
    target_bbox = result_def(TENSOR)
    bbox_inside_weight = result_def(TENSOR)
    location_counts = result_def(TENSOR)
    score_counts = result_def(TENSOR)
    rpn_batch_size_per_im = integer(256)
    rpn_straddle_thresh = number(0.0)
    rpn_fg_fraction = number(0.25)
    rpn_positive_overlap = number(0.7)
    rpn_negative_overlap = number(0.3)
    use_random = flag(True)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        anchor: Tensor,
        gt_boxes: Tensor,
        gt_labels: Tensor | None,
        is_crowd: Tensor,
        im_info: Tensor,
        lengths: Tensor,
    ) -> tuple[Tensor, ...]:
        _check(anchor, gt_boxes, is_crowd, im_info)
        index, counts = tensor((UNKNOWN,), "int32"), tensor((shape_of(im_info)[0],), "int64")
        found = like(anchor, shape=(UNKNOWN, 4))
        return index, index, tensor((UNKNOWN, 1), "int32"), found, found, counts, counts


@irdl_op_definition
class GenerateProposalLabels(RandomOp, DataSizedOp):
    """The proposals of each image to train on, with their classes and offsets.

    Objects are proposals too, unless `is_cascade_rcnn` without `max_overlap`. A proposal that
    overlaps an object by `fg_thresh` or more has the object's class; one between `bg_thresh_lo` and
    `bg_thresh_hi` is background, class 0. `batch_size_per_im` proposals are taken, a share
    `fg_fraction` of them at most with an object: the first ones, or random ones; all with
    `is_cascade_rcnn`. There, `max_overlap` [proposals] leaves out proposals that overlap an object
    fully, as the objects of an earlier stage do. Results: boxes [n, 4], classes [n, 1], offsets at
    the position of their class [n, 4 class_nums], their weights twice, the overlap of each box with
    an object [n], and the number of boxes of each image. Paddle: generate_proposal_labels.
    """

    name = "pd.generate_proposal_labels"
    rpn_rois = operand_def(TENSOR)
    gt_classes = operand_def(TENSOR)
    is_crowd = operand_def(TENSOR)
    gt_boxes = operand_def(TENSOR)
    im_info = operand_def(TENSOR)
    roi_lengths = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    max_overlap = opt_operand_def(TENSOR)
    rois = result_def(TENSOR)
    labels = result_def(TENSOR)
    bbox_targets = result_def(TENSOR)
    bbox_inside_weights = result_def(TENSOR)
    bbox_outside_weights = result_def(TENSOR)
    overlaps = result_def(TENSOR)
    counts = result_def(TENSOR)
    batch_size_per_im = integer(256)
    fg_fraction = number(0.25)
    fg_thresh = number(0.25)
    bg_thresh_hi = number(0.5)
    bg_thresh_lo = number(0.0)
    bbox_reg_weights = numbers((0.1, 0.1, 0.2, 0.2))
    class_nums = integer()
    use_random = flag(True)
    is_cls_agnostic = flag(False)
    is_cascade_rcnn = flag(False)

    @staticmethod
    def infer(
        rpn_rois: Tensor,
        gt_classes: Tensor,
        is_crowd: Tensor,
        gt_boxes: Tensor,
        im_info: Tensor,
        class_nums: int,
        bbox_reg_weights: Sequence[float],
    ) -> tuple[Tensor, ...]:
        _check(rpn_rois, gt_boxes, is_crowd, im_info)
        check_integer("gt_classes", gt_classes)
        if class_nums < 1 or len(bbox_reg_weights) != 4:
            raise ProgramError(
                f"expected classes and 4 weights, found {class_nums} and {list(bbox_reg_weights)}"
            )
        wide = like(rpn_rois, shape=(UNKNOWN, 4 * class_nums))
        counts = tensor((shape_of(im_info)[0],), "int64")
        rois, labels = like(rpn_rois, shape=(UNKNOWN, 4)), tensor((UNKNOWN, 1), "int32")
        overlaps = like(rpn_rois, shape=(UNKNOWN,))
        return rois, labels, wide, wide, wide, overlaps, counts
