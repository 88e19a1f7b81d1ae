"""YOLO's output as boxes, and its loss; both find boxes in fixed numbers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.detection.boxes import image_size
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
    show,
    tensor,
)


@irdl_op_definition
class YoloBox(OpaqueOp):
    """Boxes [n, a h w, 4] and scores [n, a h w, classes] of YOLO's output [n, c, h, w].

    Paddle: yolo_box.
    """

    name = "pd.yolo_box"
    x = operand_def(TENSOR)
    img_size = operand_def(TENSOR)
    boxes = result_def(TENSOR)
    scores = result_def(TENSOR)
    anchors = integers()
    class_num = integer()
    conf_thresh = number()
    downsample_ratio = integer()
    clip_bbox = flag(True)
    scale_x_y = number(1.0)
    iou_aware = flag(False)
    iou_aware_factor = number(0.5)

    @staticmethod
    def infer(
        x: Tensor, img_size: Tensor, anchors: Sequence[int], class_num: int, iou_aware: bool
    ) -> tuple[Tensor, Tensor]:
        rows, columns = image_size("x", x)
        if rank_of(img_size) != 2 or len(anchors) % 2 or not anchors or class_num < 1:
            raise ProgramError(
                "yolo_box needs image sizes [n, 2], anchors as pairs of a width and a height, and "
                f"at least one class, found {show(img_size)}, {list(anchors)} and {class_num}"
            )
        count = len(anchors) // 2
        channels = count * (5 + class_num + iou_aware)
        if shape_of(x)[1] not in (channels, UNKNOWN):
            raise ProgramError(f"'x' should have {channels} channels, found {show(x)}")
        shape = (shape_of(x)[0], product((count, rows, columns)))
        return like(x, shape=(*shape, 4)), like(x, shape=(*shape, class_num))


@irdl_op_definition
class YoloLoss(OpaqueOp):
    """The loss [n] of YOLO's output x [n, a (5 + classes), h, w] against ground-truth boxes.

    `gt_box` [n, b, 4] has centers, widths and heights as fractions of the image, `gt_label`
    integers [n, b], `gt_score` [n, b] the weight of each box; a box of size 0 does not count.
    `anchors` lists pairs of a width and a height; x has the pairs that `anchor_mask` selects.
    Further results: the objectness weight of each cell [n, a, h, w], -1 for ignored cells, and the
    index of the best of the a anchors for each box, int32 [n, b], -1 for none. Where boxes share a
    cell the derivative uses the last box, as in Paddle. Redmon and Farhadi, 2018. Paddle:
    yolo_loss.
    """

    name = "pd.yolo_loss"
    x = operand_def(TENSOR)
    gt_box = operand_def(TENSOR)
    gt_label = operand_def(TENSOR)
    gt_score = opt_operand_def(TENSOR)
    loss = result_def(TENSOR)
    objectness_mask = result_def(TENSOR)
    gt_match_mask = result_def(TENSOR)
    anchors = integers()
    anchor_mask = integers()
    class_num = integer()
    ignore_thresh = number()
    downsample_ratio = integer()
    use_label_smooth = flag(True)
    scale_x_y = number(1.0)
    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        gt_box: Tensor,
        gt_label: Tensor,
        gt_score: Tensor | None,
        anchors: Sequence[int],
        anchor_mask: Sequence[int],
        class_num: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        if rank_of(x) != 4 or rank_of(gt_box) != 3 or shape_of(gt_box)[2] not in (4, UNKNOWN):
            raise ProgramError(
                f"expected images [n, c, h, w] and boxes [n, b, 4], found {show(x)} and "
                f"{show(gt_box)}"
            )
        rows, columns = shape_of(x)[2:]
        check_integer("gt_label", gt_label)
        if any(side <= 0 for side in anchors):
            raise ProgramError(f"anchors should be above 0, found {list(anchors)}")
        if len(anchors) % 2 or not anchors or not anchor_mask or class_num < 1:
            raise ProgramError(
                "yolo_loss needs anchors as pairs of a width and a height, the numbers of those of "
                f"'x', and at least one class, found {list(anchors)}, {list(anchor_mask)} and "
                f"{class_num}"
            )
        if not all(0 <= number < len(anchors) // 2 for number in anchor_mask):
            raise ProgramError(f"there are no anchors {list(anchor_mask)} among {list(anchors)}")
        count = len(anchor_mask)
        if shape_of(x)[1] not in (count * (5 + class_num), UNKNOWN):
            raise ProgramError(
                f"'x' should have {count * (5 + class_num)} channels, found {show(x)}"
            )
        for value in (gt_label, *([] if gt_score is None else [gt_score])):
            if rank_of(value) != 2:
                raise ProgramError(f"expected a number for each box, [n, b], found {show(value)}")
        same_dtype(x, gt_box, *([] if gt_score is None else [gt_score]))
        images = shape_of(x)[0]
        matches = tensor((images, shape_of(gt_box)[1]), "int32")
        return like(x, shape=(images,)), like(x, shape=(images, count, rows, columns)), matches
