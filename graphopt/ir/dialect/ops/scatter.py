"""Reading and writing elements at given positions."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, string
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Shape,
    Tensor,
    agree,
    broadcast_shapes,
    like,
    normalize_axis,
    rank_of,
    same_dtype,
    shape_of,
    show,
)


def picked_shape(x: Tensor, index: Tensor) -> Shape:
    """Infer the shape of the slices of x that the rows of an index tensor name."""
    check_integer("index", index)
    depth = shape_of(index)[-1] if rank_of(index) else UNKNOWN
    if not 0 <= depth <= rank_of(x):
        raise ProgramError(
            f"the last dimension of 'index' counts axes of x: it should be from 0 to {rank_of(x)}, "
            f"found {show(index)}"
        )
    return (*shape_of(index)[:-1], *shape_of(x)[depth:])


@irdl_op_definition
class GatherNd(OpaqueOp):
    """The slices of x that each row of the index names. Paddle: gather_nd."""

    name = "pd.gather_nd"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, index: Tensor) -> Tensor:
        return like(x, shape=picked_shape(x, index))


def _check_updates(updates: Tensor, wanted: Shape) -> None:
    if not agree(shape_of(updates), wanted):
        raise ProgramError(
            f"'updates' should have shape {list(wanted)}, found {list(shape_of(updates))}"
        )


@irdl_op_definition
class ScatterNdAdd(OpaqueOp):
    """x with updates added where each row of the index names. Paddle: scatter_nd_add."""

    name = "pd.scatter_nd_add"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    updates = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
        same_dtype(x, updates)
        _check_updates(updates, picked_shape(x, index))
        return x


@irdl_op_definition
class Scatter(OpaqueOp):
    """x with rows replaced by updates, or by the sum of their updates. Paddle: scatter."""

    name = "pd.scatter"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    updates = operand_def(TENSOR)
    out = result_def(TENSOR)
    overwrite = flag(True)

    @staticmethod
    def infer(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
        same_dtype(x, updates)
        check_integer("index", index)
        if rank_of(index) > 2 or not rank_of(x):
            raise ProgramError("scatter needs an x with rows and an index of shape [n] or [n, 1]")
        _check_updates(updates, (*shape_of(index)[:1], *shape_of(x)[1:]))
        return x


def check_along_axis(x: Tensor, index: Tensor, axis: int) -> Shape:
    """Return the index's shape, other sizes broadcast with x; ProgramError on a mismatch."""
    check_integer("index", index)
    if rank_of(x) != rank_of(index):
        raise ProgramError("x and 'index' must have one rank")
    at = normalize_axis(axis, rank_of(x))
    own = shape_of(index)
    others = broadcast_shapes(
        (*shape_of(x)[:at], 1, *shape_of(x)[at + 1 :]), (*own[:at], 1, *own[at + 1 :])
    )
    return (*others[:at], own[at], *others[at + 1 :])


@irdl_op_definition
class TakeAlongAxis(OpaqueOp):
    """Elements by their number along an axis; other dimensions broadcast.

    Paddle: take_along_axis.
    """

    name = "pd.take_along_axis"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, index: Tensor, axis: int) -> Tensor:
        return like(x, shape=check_along_axis(x, index, axis))


PUT_REDUCTIONS = ("assign", "add", "multiply", "mul", "mean", "amin", "amax")


@irdl_op_definition
class PutAlongAxis(OpaqueOp):
    """x with values written (or combined with the elements) by their number along an axis.

    Without `include_self` an element combines only the values written to it. Paddle:
    put_along_axis.
    """

    name = "pd.put_along_axis"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    value = operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)
    reduce = string("assign", of=PUT_REDUCTIONS)
    include_self = flag(True)

    @staticmethod
    def infer(x: Tensor, index: Tensor, value: Tensor, axis: int, reduce: str) -> Tensor:
        same_dtype(x, value)
        if reduce not in PUT_REDUCTIONS:
            raise ProgramError(f"reduce should be one of {PUT_REDUCTIONS}, found '{reduce}'")
        broadcast_shapes(check_along_axis(x, index, axis), shape_of(value))
        return x


@irdl_op_definition
class IndexSample(OpaqueOp):
    """From each row of x the elements that its row of the index names. Paddle: index_sample."""

    name = "pd.index_sample"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, index: Tensor) -> Tensor:
        check_integer("index", index)
        have, wanted = shape_of(x), shape_of(index)
        if len(have) != 2 or len(wanted) != 2 or not agree(have[:1], wanted[:1]):
            raise ProgramError("index_sample needs two matrices with equally many rows")
        rows = wanted[0] if have[0] == UNKNOWN else have[0]
        return like(x, shape=(rows, wanted[1]))
