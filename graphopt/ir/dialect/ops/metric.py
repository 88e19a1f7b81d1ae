"""Metrics of classifiers, within a batch and from run to run."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, string
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    rank_of,
    shape_of,
)


@irdl_op_definition
class Auc(OpaqueOp):
    """The area under the curve of the ranks so far. Paddle: auc.

    `stat_pos` and `stat_neg` count labels by predicted probability. With `slide_steps` k > 0 only
    the last k batches count: the statistics hold k rows of counts, their sum and the batch number.
    """

    name = "pd.auc"
    x = operand_def(TENSOR)
    label = operand_def(TENSOR)
    stat_pos = operand_def(TENSOR)
    stat_neg = operand_def(TENSOR)
    auc = result_def(TENSOR)
    stat_pos_out = result_def(TENSOR)
    stat_neg_out = result_def(TENSOR)
    curve = string("ROC", of=("ROC", "PR"))
    num_thresholds = integer(4095)
    slide_steps = integer(1)

    @staticmethod
    def infer(
        x: Tensor,
        stat_pos: Tensor,
        stat_neg: Tensor,
        curve: str,
        num_thresholds: int,
        slide_steps: int,
    ) -> tuple[Tensor, ...]:
        if rank_of(x) != 2 or not dtype_of(x).is_floating:
            raise ProgramError("the prediction must be floating-point [n, classes]")
        if curve not in ("ROC", "PR"):
            raise ProgramError(f"the curve must be ROC or PR, found '{curve}'")
        buckets = num_thresholds + 1
        needed = buckets if slide_steps == 0 else (1 + slide_steps) * buckets + 1
        for stat in (stat_pos, stat_neg):
            size = 1
            for dim in shape_of(stat):
                size *= dim
            if UNKNOWN not in shape_of(stat) and size != needed:
                raise ProgramError(f"the statistics need {needed} elements, found {size}")
        return like(x, shape=(), dtype="float64"), stat_pos, stat_neg


@irdl_op_definition
class Accuracy(OpaqueOp):
    """The share of rows whose label is among the top indices. Paddle: accuracy."""

    name = "pd.accuracy"
    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    label = operand_def(TENSOR)
    accuracy = result_def(TENSOR)
    correct = result_def(TENSOR)
    total = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, ...]:
        check_integer("indices", indices)
        check_integer("label", label)
        count = like(x, shape=(), dtype="int32")
        return like(x, shape=(), dtype="float32"), count, count
