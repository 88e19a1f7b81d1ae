"""Mean average precision of detected boxes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, rank_of, shape_of, show, tensor

KINDS = ("integral", "11point")


@irdl_op_definition
class DetectionMap(DataSizedOp):
    """The mean over classes of the average precision of detections, and its statistics.

    Detections are rows (class, score, x, y, x, y), labels rows (class, difficult, x, y, x, y) or
    (class, x, y, x, y), image by image, with the number of rows of each image. The further results
    are the number of labels of each class, and for each class the rows (score, 1 or 0) that mark
    its true positives and its false positives. `state` is empty, or a switch and these results of
    earlier batches. Paddle: detection_map.
    """

    name = "pd.detection_map"
    detections = operand_def(TENSOR)
    detection_lengths = operand_def(TENSOR)
    labels = operand_def(TENSOR)
    label_lengths = operand_def(TENSOR)
    state = var_operand_def(TENSOR)
    out = result_def(TENSOR)
    counts = result_def(TENSOR)
    right = result_def(TENSOR)
    right_lengths = result_def(TENSOR)
    wrong = result_def(TENSOR)
    wrong_lengths = result_def(TENSOR)
    class_num = integer()
    background_label = integer(0)
    overlap_threshold = number(0.3)
    evaluate_difficult = flag(True)
    ap_type = string("integral", of=("integral", "11point"))

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        detections: Tensor,
        detection_lengths: Tensor,
        labels: Tensor,
        label_lengths: Tensor,
        state: Sequence[Tensor],
        class_num: int,
        ap_type: str,
    ) -> tuple[Tensor, ...]:
        check_integer("detection_lengths", detection_lengths)
        check_integer("label_lengths", label_lengths)
        ranks = rank_of(detections), rank_of(labels)
        if ranks != (2, 2) or shape_of(detections)[1] not in (6, UNKNOWN):
            raise ProgramError(f"expected rows of boxes, found {show(detections)}, {show(labels)}")
        if shape_of(labels)[1] not in (5, 6, UNKNOWN):
            raise ProgramError(f"a label has 5 or 6 numbers, found {show(labels)}")
        if ap_type not in KINDS or class_num < 1 or len(state) not in (0, 6):
            raise ProgramError(f"detection_map of {class_num} classes by '{ap_type}'")
        pairs, sizes = tensor((UNKNOWN, 2), "float32"), tensor((class_num,), "int64")
        counts = tensor((class_num, 1), "int32")
        return tensor((1,), "float32"), counts, pairs, sizes, pairs, sizes
