"""Sequences of two texts side by side, and sequences that carry a tag."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.sequence.layers import check_sequences
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    agree,
    like,
    rank_of,
    same_dtype,
    shape_of,
    show,
)


@irdl_op_definition
class MatchMatrixTensor(DataSizedOp):
    """The products of each row of a sequence and each row of another, by several matrices.

    Rows are [n, d] and [m, e], `weight` is [d, channels, e]. A pair of sequences of k and l rows
    gives channels * k * l rows of one number, channel by channel; the second result has these
    lengths, and the third one is the first operand times the matrices, [n, channels * e]. Paddle:
    match_matrix_tensor.
    """

    name = "pd.match_matrix_tensor"
    x = operand_def(TENSOR)
    x_lengths = operand_def(TENSOR)
    y = operand_def(TENSOR)
    y_lengths = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    out = result_def(TENSOR)
    out_lengths = result_def(TENSOR)
    products = result_def(TENSOR)

    @staticmethod
    def infer(
        x: Tensor, x_lengths: Tensor, y: Tensor, y_lengths: Tensor, weight: Tensor
    ) -> tuple[Tensor, ...]:
        check_sequences(x, x_lengths)
        check_sequences(y, y_lengths)
        same_dtype(x, y, weight)
        sizes = shape_of(weight)
        if (
            [rank_of(each) for each in (x, y, weight)] != [2, 2, 3]
            or not agree(sizes[::2], (shape_of(x)[1], shape_of(y)[1]))
            or not agree(shape_of(x_lengths), shape_of(y_lengths))
        ):
            raise ProgramError(
                "match_matrix_tensor needs as many sequences of rows [n, d] and [m, e] and a "
                f"weight [d, channels, e], found {show(x)}, {show(y)} and {show(weight)}"
            )
        width = UNKNOWN if UNKNOWN in sizes[1:] else sizes[1] * sizes[2]
        return (
            like(x, shape=(UNKNOWN, 1)),
            x_lengths,
            like(x, shape=(shape_of(x)[0], width)),
        )


@irdl_op_definition
class FilterByInstag(DataSizedOp):
    """The rows, or sequences of rows, with a tag among the wanted ones.

    `tags` has the tags of each, counted by `tag_lengths`. Results: the rows, a weight of 1 for each
    row or sequence [k, 1], its position in the result and in the operand with its length [k, 3],
    and the lengths. If no row is left there is one row of `out_val_if_empty` with the weight 0.
    Paddle: filter_by_instag.
    """

    name = "pd.filter_by_instag"
    irdl_options = (SEGMENTS,)
    x = operand_def(TENSOR)
    tags = operand_def(TENSOR)
    tag_lengths = operand_def(TENSOR)
    wanted = operand_def(TENSOR)
    lengths = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    loss_weight = result_def(TENSOR)
    index_map = result_def(TENSOR)
    out_lengths = result_def(TENSOR)
    out_val_if_empty = number(0.0)

    @staticmethod
    def infer(
        x: Tensor, tags: Tensor, tag_lengths: Tensor, wanted: Tensor, lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        for what, value in (("tags", tags), ("wanted", wanted)):
            check_integer(what, value)
        check_sequences(tags, tag_lengths)
        if lengths is not None:
            check_sequences(x, lengths)
        rows = shape_of(x)[:1] if lengths is None else shape_of(lengths)
        if not rank_of(x) or not agree(rows, shape_of(tag_lengths)):
            raise ProgramError(
                f"filter_by_instag needs tags for each of {list(rows)} rows or sequences, found "
                f"{show(tag_lengths)}"
            )
        return (
            like(x, shape=(UNKNOWN, *shape_of(x)[1:])),
            like(x, shape=(UNKNOWN, 1)),
            like(x, shape=(UNKNOWN, 3), dtype="int64"),
            like(x, shape=(UNKNOWN,), dtype="int64"),
        )
