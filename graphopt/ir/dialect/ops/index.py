"""Ops that look elements up by number."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, integer
from graphopt.ir.dialect.ops.base import OpaqueOp, PureOp
from graphopt.ir.dialect.traits import Movement, Rowwise
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    normalize_axis,
    product,
    rank_of,
    shape_of,
    show,
)


def check_integer(what: str, value: Tensor) -> None:
    """ProgramError unless the tensor holds integers."""
    if not dtype_of(value).startswith(("int", "uint")):
        raise ProgramError(f"'{what}' should be an integer tensor, found {dtype_of(value)!s}")


@irdl_op_definition
class Embedding(PureOp):
    """Rows of a table by number; rows `padding_idx` read as zero. Paddle: lookup_table_v2."""

    name = "pd.embedding"
    traits = traits_def(Rowwise())
    x = operand_def(Tensor)
    weight = operand_def(Tensor)
    out = result_def(Tensor)
    padding_idx = integer(-1)

    @staticmethod
    def infer(x: Tensor, weight: Tensor) -> Tensor:
        check_integer("x", x)
        if rank_of(weight) != 2:
            raise ProgramError("the embedding table must be 2-D")
        return like(weight, shape=(*shape_of(x), shape_of(weight)[1]))


@irdl_op_definition
class OneHot(PureOp):
    """A new last axis with a one at the given number. Paddle: one_hot_v2.

    With `allow_out_of_range` other numbers give zeros, without it they are an error.
    """

    name = "pd.one_hot"
    traits = traits_def(Rowwise())
    x = operand_def(Tensor)
    out = result_def(Tensor)
    depth = integer()
    dtype = dtype_property("float32")
    allow_out_of_range = flag(False)

    @staticmethod
    def infer(x: Tensor, depth: int, dtype: str) -> Tensor:
        check_integer("x", x)
        return like(x, shape=(*shape_of(x), depth), dtype=dtype)

    @staticmethod
    def infer_partly(x: Tensor, dtype: str) -> Tensor:
        return like(x, shape=(*shape_of(x), UNKNOWN), dtype=dtype)


@irdl_op_definition
class Gather(OpaqueOp):
    """Slices of x along an axis by number. Paddle: gather."""

    name = "pd.gather"
    x = operand_def(Tensor)
    index = operand_def(Tensor)
    out = result_def(Tensor)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, index: Tensor, axis: int) -> Tensor:
        check_integer("index", index)
        if rank_of(index) > 1 and shape_of(index)[1:] not in ((1,), (UNKNOWN,)):
            raise ProgramError(f"'index' should have shape [n], [n, 1] or [], found {show(index)}")
        shape, at = shape_of(x), normalize_axis(axis, rank_of(x))
        return like(x, shape=(*shape[:at], *shape_of(index)[:1], *shape[at + 1 :]))


@irdl_op_definition
class Topk(OpaqueOp):
    """The k largest (or smallest) elements along an axis and where they are. Paddle: top_k_v2."""

    name = "pd.topk"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    indices = result_def(Tensor)
    k = integer(1)
    axis = integer(-1)
    largest = flag(True)
    sorted = flag(True)

    @staticmethod
    def infer(x: Tensor, k: int, axis: int) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(x))
        at = normalize_axis(axis, len(shape))
        if k < 1 or 0 <= shape[at] < k:
            raise ProgramError(f"k must be from 1 to {shape[at]}, found {k}")
        shape[at] = k
        return like(x, shape=shape), like(x, shape=shape, dtype="int64")

    @staticmethod
    def infer_partly(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(x))
        if shape:
            shape[normalize_axis(axis, len(shape))] = UNKNOWN
        return like(x, shape=shape), like(x, shape=shape, dtype="int64")


@irdl_op_definition
class Accuracy(OpaqueOp):
    """The share of rows whose label is among the top indices. Paddle: accuracy."""

    name = "pd.accuracy"
    x = operand_def(Tensor)
    indices = operand_def(Tensor)
    label = operand_def(Tensor)
    accuracy = result_def(Tensor)
    correct = result_def(Tensor)
    total = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, ...]:
        check_integer("indices", indices)
        check_integer("label", label)
        count = like(x, shape=(), dtype="int32")
        return like(x, shape=(), dtype="float32"), count, count


@irdl_op_definition
class FillRows(PureOp):
    """x with the rows where `mask` is not `keep` replaced by the first one where it is.
    Paddle: split_lod_tensor.

    So a branch for some of the rows can compute on all of them, and meet no other values than it
    would; where there is no such row it meets the first row.
    """

    name = "pd.fill_rows"
    traits = traits_def(Movement())
    x = operand_def(Tensor)
    mask = operand_def(Tensor)
    out = result_def(Tensor)
    keep = flag(True)

    @staticmethod
    def infer(x: Tensor, mask: Tensor) -> Tensor:
        count, rows = product(shape_of(mask)), shape_of(x)[0] if shape_of(x) else 0
        if dtype_of(mask) != "bool" or (UNKNOWN not in (rows, count) and rows != count):
            raise ProgramError("'mask' must hold one bool for each row of 'x', shape [rows, 1]")
        return x
