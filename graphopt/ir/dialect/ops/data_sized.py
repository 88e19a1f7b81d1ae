"""Ops whose results have as many elements as the data say; programs with them run op by op."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import integer, integers
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    dtype_of,
    element_count,
    like,
    normalize_axis,
    rank_of,
    shape_of,
    show,
)


@irdl_op_definition
class Nonzero(DataSizedOp):
    """Indices of the elements that are not 0, one row for each. Paddle: where_index."""

    name = "pd.nonzero"
    condition = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(condition: Tensor) -> Tensor:
        return like(condition, shape=(UNKNOWN, rank_of(condition)), dtype="int64")


@irdl_op_definition
class MaskedSelect(DataSizedOp):
    """The elements of x where the mask is true, in order. Paddle: masked_select."""

    name = "pd.masked_select"
    x = operand_def(Tensor)
    mask = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, mask: Tensor) -> Tensor:
        if dtype_of(mask) != "bool":
            raise ProgramError(f"the mask must be bool, found {show(mask)}")
        broadcast_shapes(shape_of(x), shape_of(mask))
        return like(x, shape=(UNKNOWN,))


@irdl_op_definition
class Unique(DataSizedOp):
    """The different elements, or slices along `axis`, in order. Paddle: unique.

    Further results: where each was first, which one each element is, how many there are.
    """

    name = "pd.unique"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    indices = result_def(Tensor)
    inverse = result_def(Tensor)
    counts = result_def(Tensor)
    axis = integers(())
    dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, axis: tuple[int, ...], dtype: str) -> tuple[Tensor, ...]:
        if not axis:
            out, elements = (UNKNOWN,), element_count(shape_of(x))
        else:
            at = normalize_axis(axis[0], rank_of(x))
            out = tuple(UNKNOWN if i == at else dim for i, dim in enumerate(shape_of(x)))
            elements = shape_of(x)[at]
        index = like(x, shape=(UNKNOWN,), dtype=dtype)
        return like(x, shape=out), index, like(x, shape=(elements,), dtype=dtype), index


@irdl_op_definition
class UniqueConsecutive(DataSizedOp):
    """x with runs of equal elements, or slices along `axis`, made one. Paddle: unique_consecutive.

    Further results: which one each element became, how long the runs are.
    """

    name = "pd.unique_consecutive"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    inverse = result_def(Tensor)
    counts = result_def(Tensor)
    axis = integers(())
    dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, axis: tuple[int, ...], dtype: str) -> tuple[Tensor, ...]:
        out, _, inverse, counts = Unique.infer(x, axis, dtype)
        return out, inverse, counts


@irdl_op_definition
class Bincount(DataSizedOp):
    """Number of times each integer 0, 1, … is in x, or the sum of weights. Paddle: bincount."""

    name = "pd.bincount"
    x = operand_def(Tensor)
    weights = opt_operand_def(Tensor)
    out = result_def(Tensor)
    minlength = integer(0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(x: Tensor, weights: Tensor | None) -> Tensor:
        check_integer("x", x)
        if rank_of(x) != 1:
            raise ProgramError(f"bincount counts the elements of a vector, found {show(x)}")
        if weights is None:
            return like(x, shape=(UNKNOWN,), dtype="int64")
        return like(weights, shape=(UNKNOWN,))


@irdl_op_definition
class RepeatInterleave(DataSizedOp):
    """Slice i along `axis`, repeats[i] times. Paddle: repeat_interleave with RepeatsTensor."""

    name = "pd.repeat_interleave_with_tensor_index"
    x = operand_def(Tensor)
    repeats = operand_def(Tensor)
    out = result_def(Tensor)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, repeats: Tensor, axis: int) -> Tensor:
        at = normalize_axis(axis, rank_of(x))
        sizes = (shape_of(x)[at], *shape_of(repeats))
        if rank_of(repeats) != 1 or (UNKNOWN not in sizes and sizes[0] != sizes[1] != 1):
            raise ProgramError(f"repeats needs one number for each slice along axis {axis}")
        return like(x, shape=[UNKNOWN if i == at else d for i, d in enumerate(shape_of(x))])
