"""Sequences as arrays of their steps, the longest sequence first: the batch shrinks as they end."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, rank_of, shape_of, show


@irdl_op_definition
class SequenceSteps(DataSizedOp):
    """The row indices of sequences step by step, and the number of rows of each step.

    Within a step, rows are in `order`, which has the indices of the sequences, the longest one's
    first. `rows` has the dtype of `order`, int64.
    Paddle: lod_tensor_to_array, array_to_lod_tensor.
    """

    name = "pd.sequence_steps"
    lengths = operand_def(TENSOR)
    order = operand_def(TENSOR)
    rows = result_def(TENSOR)
    sizes = result_def(TENSOR)

    @staticmethod
    def infer(lengths: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        for what, each in (("lengths", lengths), ("order", order)):
            check_integer(what, each)
            if rank_of(each) != 1:
                raise ProgramError(f"'{what}' must be numbers [sequences], found {show(each)}")
        return like(order, shape=(UNKNOWN,)), like(lengths, shape=(UNKNOWN,))


@irdl_op_definition
class ArrayOfRows(DataSizedOp):
    """x cut into array elements, one after another; `sizes` counts the rows of each.

    Paddle: lod_tensor_to_array.
    """

    name = "pd.array_of_rows"
    DECIDED_BY: ClassVar[str] = "sizes"
    x = operand_def(TENSOR)
    sizes = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, sizes: Tensor) -> Tensor:
        check_integer("sizes", sizes)
        if rank_of(x) < 1 or rank_of(sizes) != 1:
            raise ProgramError(f"rows {show(x)} cannot be split by sizes {show(sizes)}")
        return like(x, shape=(*shape_of(sizes), UNKNOWN, *shape_of(x)[1:]))
