"""Choosing boxes: how many are left depends on their scores. Programs with these run op by op."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.attrs import flag, integer, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    agree,
    dtype_of,
    like,
    rank_of,
    same_dtype,
    shape_of,
    show,
    tensor,
)


def _check_columns(what: str, value: Tensor) -> None:
    if shape_of(value)[-1:] not in ((4,), (UNKNOWN,)) or not dtype_of(value).is_floating:
        raise UnsupportedError(
            f"'{what}' should hold boxes of 4 numbers (corners) in floating point; "
            f"found {show(value)}"
        )


def _check_counts(rois_num: Tensor | None) -> None:
    if rois_num is not None and rank_of(rois_num) != 1:
        raise ProgramError(f"'rois_num' should be [images], found {show(rois_num)}")


@irdl_op_definition
class Nms(DataSizedOp):
    """Boxes of [m, 4], given from best to worst, that no better one covers. Paddle: nms."""

    name = "pd.nms"
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    threshold = number(1.0)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        _check_columns("x", x)
        if rank_of(x) != 2:
            raise ProgramError(f"nms takes boxes [m, 4], found {show(x)}")
        return tensor((UNKNOWN,), "int64")


@irdl_op_definition
class MulticlassNms(DataSizedOp):
    """For each class the boxes that no better one covers: rows (class, score, x, y, x, y).

    Boxes [n, m, 4] with scores [n, classes, m], or [m, classes, 4] with [m, classes] and the number
    of rows of each image. Further results: the box index of each row, and the number of rows of
    each image. Paddle: multiclass_nms3.
    """

    name = "pd.multiclass_nms3"
    bboxes = operand_def(TENSOR)
    scores = operand_def(TENSOR)
    rois_num = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    index = result_def(TENSOR)
    nms_rois_num = result_def(TENSOR)
    background_label = integer(0)
    score_threshold = number()
    nms_top_k = integer()
    keep_top_k = integer()
    nms_threshold = number(0.3)
    normalized = flag(True)
    nms_eta = number(1.0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(bboxes: Tensor, scores: Tensor, rois_num: Tensor | None) -> tuple[Tensor, ...]:
        same_dtype(bboxes, scores)
        _check_columns("bboxes", bboxes)
        if rank_of(bboxes) != 3 or rank_of(scores) not in (2, 3):
            raise ProgramError(
                f"expected boxes [n, m, 4] and scores [n, classes, m], found {show(bboxes)} and "
                f"{show(scores)}"
            )
        n, *_, m = shape_of(scores)
        if not agree(shape_of(bboxes)[:2], (n, m)):
            raise ProgramError(
                f"expected a score for each box, found boxes {show(bboxes)} and {show(scores)}"
            )
        _check_counts(rois_num)
        if rank_of(scores) == 2 and rois_num is None:
            raise UnsupportedError("boxes of several images in one list need 'RoisNum'")
        images = shape_of(bboxes)[0] if rois_num is None else shape_of(rois_num)[0]
        return (
            like(bboxes, shape=(UNKNOWN, 6)),
            tensor((UNKNOWN, 1), "int32"),
            tensor((images,), "int32"),
        )


@irdl_op_definition
class MatrixNms(DataSizedOp):
    """Boxes whose scores stay high where better ones cover them. Paddle: matrix_nms.

    Operands and results are as for `multiclass_nms3`, with scores [n, classes, m].
    """

    name = "pd.matrix_nms"
    bboxes = operand_def(TENSOR)
    scores = operand_def(TENSOR)
    out = result_def(TENSOR)
    index = result_def(TENSOR)
    rois_num = result_def(TENSOR)
    background_label = integer(0)
    score_threshold = number()
    post_threshold = number(0.0)
    nms_top_k = integer()
    keep_top_k = integer()
    use_gaussian = flag(False)
    gaussian_sigma = number(2.0)
    normalized = flag(True)

    @staticmethod
    def infer(bboxes: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        if rank_of(scores) != 3:
            raise ProgramError(f"expected scores [n, classes, m], found {show(scores)}")
        return MulticlassNms.infer(bboxes, scores, None)


@irdl_op_definition
class GenerateProposals(DataSizedOp):
    """Boxes that are likely to hold an object, computed from anchors and offsets.

    Scores [n, a, h, w], offsets [n, 4 a, h, w], image sizes [n, 2] or, with scales, [n, 3], anchors
    and variances [h, w, a, 4]; the results are boxes, their scores [boxes, 1] and the number of
    boxes of each image. Paddle: generate_proposals_v2.
    """

    name = "pd.generate_proposals"
    scores = operand_def(TENSOR)
    bbox_deltas = operand_def(TENSOR)
    im_shape = operand_def(TENSOR)
    anchors = operand_def(TENSOR)
    variances = operand_def(TENSOR)
    rpn_rois = result_def(TENSOR)
    rpn_roi_probs = result_def(TENSOR)
    rpn_rois_num = result_def(TENSOR)
    pre_nms_top_n = integer(6000)
    post_nms_top_n = integer(1000)
    nms_thresh = number(0.5)
    min_size = number(0.1)
    eta = number(1.0)
    pixel_offset = flag(True)

    @staticmethod
    def infer(
        scores: Tensor, bbox_deltas: Tensor, im_shape: Tensor, anchors: Tensor, variances: Tensor
    ) -> tuple[Tensor, ...]:
        same_dtype(scores, bbox_deltas, anchors, variances)
        _check_columns("anchors", anchors)
        _check_columns("variances", variances)
        if rank_of(scores) != 4 or rank_of(bbox_deltas) != 4 or rank_of(im_shape) != 2:
            raise ProgramError(
                f"expected scores [n, a, h, w], offsets [n, 4 a, h, w] and image sizes [n, 2], "
                f"found {show(scores)}, {show(bbox_deltas)} and {show(im_shape)}"
            )
        return (
            like(scores, shape=(UNKNOWN, 4)),
            like(scores, shape=(UNKNOWN, 1)),
            tensor((shape_of(scores)[0],), "int32"),
        )


@irdl_op_definition
class DistributeFpnProposals(DataSizedOp):
    """Boxes [r, 4] by the level of a feature pyramid that suits their size.

    The results are the boxes of each level, the position of each operand box among them [r, 1], and
    for each level the number of boxes of each image. Paddle: distribute_fpn_proposals.
    """

    name = "pd.distribute_fpn_proposals"
    fpn_rois = operand_def(TENSOR)
    rois_num = opt_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    min_level = integer()
    max_level = integer()
    refer_level = integer()
    refer_scale = integer()
    pixel_offset = flag(True)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        fpn_rois: Tensor, rois_num: Tensor | None, min_level: int, max_level: int, refer_scale: int
    ) -> tuple[Tensor, ...]:
        _check_columns("fpn_rois", fpn_rois)
        _check_counts(rois_num)
        if rank_of(fpn_rois) != 2 or not 0 <= max_level - min_level < 64 or refer_scale < 1:
            raise ProgramError(
                f"expected boxes [r, 4], levels that go up and a scale above 0, found "
                f"{show(fpn_rois)}, {min_level} to {max_level} and {refer_scale}"
            )
        count = max_level - min_level + 1
        images = 1 if rois_num is None else shape_of(rois_num)[0]
        return (
            *(like(fpn_rois, shape=(UNKNOWN, 4)) for _ in range(count)),
            tensor((shape_of(fpn_rois)[0], 1), "int32"),
            *(tensor((images,), "int32") for _ in range(count)),
        )


@irdl_op_definition
class CollectFpnProposals(DataSizedOp):
    """The best boxes of all levels of a pyramid, image by image. Paddle: collect_fpn_proposals."""

    name = "pd.collect_fpn_proposals"
    rois = var_operand_def(TENSOR)
    scores = var_operand_def(TENSOR)
    rois_num = var_operand_def(TENSOR)
    fpn_rois = result_def(TENSOR)
    out_rois_num = result_def(TENSOR)
    post_nms_top_n = integer()

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        rois: Sequence[Tensor], scores: Sequence[Tensor], rois_num: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        if not rois or len(rois) != len(scores) or len(rois) != len(rois_num):
            raise UnsupportedError("each level needs boxes, scores and the number of each image")
        for number_of in rois_num:
            check_integer("MultiLevelRoIsNum", number_of)
        return like(rois[0], shape=(UNKNOWN, 4)), tensor(shape_of(rois_num[0]), "int32")


@irdl_op_definition
class LocalityAwareNms(DataSizedOp):
    """Boxes of one class that no better one covers, after merging consecutive boxes.

    A box that overlaps the one before it is merged into it, weighted by their scores, which are
    added. Boxes [n, m, 4], scores [n, 1, m]; the results are the first and the last one of
    `multiclass_nms3`. Paddle: locality_aware_nms.
    """

    name = "pd.locality_aware_nms"
    bboxes = operand_def(TENSOR)
    scores = operand_def(TENSOR)
    out = result_def(TENSOR)
    counts = result_def(TENSOR)
    score_threshold = number()
    nms_top_k = integer()
    keep_top_k = integer()
    nms_threshold = number(0.3)
    normalized = flag(True)
    nms_eta = number(1.0)

    @staticmethod
    def infer(bboxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        if rank_of(scores) != 3 or shape_of(scores)[1] not in (1, UNKNOWN):
            raise ProgramError(f"expected scores [n, 1, m] of one class, found {show(scores)}")
        out, _, counts = MulticlassNms.infer(bboxes, scores, None)
        return out, counts


@irdl_op_definition
class RetinanetDetectionOutput(DataSizedOp):
    """Detections of several feature maps: rows (class, score, x, y, x, y), the best first.

    Each map has offsets [n, m, 4], scores [n, m, classes] and anchors [m, 4]; images [n, 3] have a
    height, a width and a scale, by which boxes are divided. Of each map only the best `nms_top_k`
    scores above `score_threshold` count, of the last map without a threshold. The second result is
    the number of rows of each image. Paddle: retinanet_detection_output.
    """

    name = "pd.retinanet_detection_output"
    bboxes = var_operand_def(TENSOR)
    scores = var_operand_def(TENSOR)
    anchors = var_operand_def(TENSOR)
    im_info = operand_def(TENSOR)
    out = result_def(TENSOR)
    counts = result_def(TENSOR)
    score_threshold = number(0.05)
    nms_top_k = integer(1000)
    keep_top_k = integer(100)
    nms_threshold = number(0.3)
    nms_eta = number(1.0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        bboxes: Sequence[Tensor],
        scores: Sequence[Tensor],
        anchors: Sequence[Tensor],
        im_info: Tensor,
    ) -> tuple[Tensor, Tensor]:
        if not bboxes or not len(bboxes) == len(scores) == len(anchors):
            raise ProgramError("each feature map needs offsets, scores and anchors")
        for value in (*bboxes, *anchors):
            _check_columns("bboxes", value)
        if rank_of(im_info) != 2:
            raise ProgramError(f"expected images [n, 3], found {show(im_info)}")
        found = like(bboxes[0], shape=(UNKNOWN, 6))
        return found, tensor((shape_of(im_info)[0],), "int32")
