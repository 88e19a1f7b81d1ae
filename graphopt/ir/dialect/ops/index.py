"""Ops that read and write elements by number along axes."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def, var_operand_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, integer
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp
from graphopt.ir.dialect.traits import Elementwise, Movement, Rowwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    normalize_axis,
    product,
    rank_of,
    same_dtype,
    shape_of,
    show,
)


def check_integer(what: str, value: Tensor) -> None:
    """Raise ProgramError unless the tensor holds integers."""
    if not dtype_of(value).startswith(("int", "uint")):
        raise OperandError(f"'{what}' should be an integer tensor, found {dtype_of(value)}")


@irdl_op_definition
class Embedding(PureOp):
    """Rows of a table by number; rows `padding_idx` read as zero. Paddle: lookup_table_v2."""

    name = "pd.embedding"
    traits = traits_def(Rowwise())
    x = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    out = result_def(TENSOR)
    padding_idx = integer(-1)

    @staticmethod
    def infer(x: Tensor, weight: Tensor) -> Tensor:
        check_integer("x", x)
        if rank_of(weight) != 2:
            raise ProgramError("the embedding table must be 2-D")
        return like(weight, shape=(*shape_of(x), shape_of(weight)[1]))


@irdl_op_definition
class OneHot(OneTensor, PureOp):
    """A new last axis with a one at the given number. Paddle: one_hot_v2.

    With `allow_out_of_range` other numbers give zeros, without it they are an error.
    """

    name = "pd.one_hot"
    traits = traits_def(Rowwise())
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
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, index: Tensor, axis: int) -> Tensor:
        check_integer("index", index)
        if rank_of(index) > 1 and shape_of(index)[1:] not in ((1,), (UNKNOWN,)):
            raise ProgramError(f"'index' should have shape [n], [n, 1] or [], found {show(index)}")
        shape, at = shape_of(x), normalize_axis(axis, rank_of(x))
        return like(x, shape=(*shape[:at], *shape_of(index)[:1], *shape[at + 1 :]))


@irdl_op_definition
class FillRows(PureOp):
    """x with each row whose `mask` is not `keep` replaced by the first row whose mask is.
    Paddle: split_lod_tensor.

    So a branch for some of the rows can compute on all of them, and meet no other values than it
    would; without any such row it meets the first row.
    """

    name = "pd.fill_rows"
    traits = traits_def(Movement())
    x = operand_def(TENSOR)
    mask = operand_def(TENSOR)
    out = result_def(TENSOR)
    keep = flag(True)

    @staticmethod
    def infer(x: Tensor, mask: Tensor) -> Tensor:
        count, rows = product(shape_of(mask)), shape_of(x)[0] if shape_of(x) else 0
        if dtype_of(mask) != "bool" or (UNKNOWN not in (rows, count) and rows != count):
            raise ProgramError("'mask' must hold one bool for each row of 'x', shape [rows, 1]")
        return x


@irdl_op_definition
class Multiplex(OpaqueOp):
    """Row i of the tensor that index[i] names. Paddle: multiplex."""

    name = "pd.multiplex"
    irdl_options = (SEGMENTS,)
    inputs = var_operand_def(TENSOR)
    index = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(inputs: tuple[Tensor, ...], index: Tensor) -> Tensor:
        if len(inputs) < 2:
            raise ProgramError(f"multiplex needs two tensors or more, found {len(inputs)}")
        same_dtype(*inputs)
        if rank_of(inputs[0]) < 2 or len({rank_of(t) for t in inputs}) > 1:
            raise ProgramError("the tensors must have one shape, of rank 2 or more")
        rows = broadcast_shapes(*(shape_of(t) for t in inputs))[0]
        count = product(shape_of(index))
        if not dtype_of(index).startswith("int") or (
            UNKNOWN not in (rows, count) and rows != count
        ):
            raise ProgramError("'index' must hold one integer for each row, shape [rows, 1]")
        return like(inputs[0], shape=broadcast_shapes(*(shape_of(t) for t in inputs)))


@irdl_op_definition
class IndexAdd(OpaqueOp):
    """x with slices added at the indices along an axis. Paddle: index_add."""

    name = "pd.index_add"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    add_value = operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, index: Tensor, add_value: Tensor, axis: int) -> Tensor:
        same_dtype(x, add_value)
        check_integer("index", index)
        if rank_of(index) != 1:
            raise ProgramError(f"'index' should be 1-D, found {list(shape_of(index))}")
        at, shape = normalize_axis(axis, rank_of(x)), shape_of(x)
        wanted = (*shape[:at], *shape_of(index), *shape[at + 1 :])
        given = shape_of(add_value)
        if len(given) != len(wanted):
            raise ProgramError(f"'value' should have the shape {list(wanted)}, found {list(given)}")
        broadcast_shapes(wanted, given)
        return x


@irdl_op_definition
class IndexPut(OpaqueOp):
    """x with values at the positions that index tensors, one for each leading axis, name jointly.

    Paddle: index_put.
    """

    name = "pd.index_put"
    x = operand_def(TENSOR)
    indices = var_operand_def(TENSOR)
    value = operand_def(TENSOR)
    out = result_def(TENSOR)
    accumulate = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(x: Tensor, indices: tuple[Tensor, ...], value: Tensor) -> Tensor:
        same_dtype(x, value)
        if not 0 < len(indices) <= rank_of(x):
            raise ProgramError(
                f"index_put takes 1 to {rank_of(x)} index tensors for x {list(shape_of(x))}, "
                f"found {len(indices)}"
            )
        for index in indices:
            check_integer("indices", index)
        picked = broadcast_shapes(*map(shape_of, indices))
        broadcast_shapes((*picked, *shape_of(x)[len(indices) :]), shape_of(value))
        return x


@irdl_op_definition
class WriteRows(OpaqueOp):
    """x with `rows` in place of its own from index `at` on along an axis, all of them inside x.

    Paddle has no such operator: it stands for a concat to a tensor that has room for more rows.
    """

    name = "pd.write_rows"
    x = operand_def(TENSOR)
    rows = operand_def(TENSOR)
    at = operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, rows: Tensor, at: Tensor, axis: int) -> Tensor:
        same_dtype(x, rows)
        check_integer("at", at)
        along, shape, given = normalize_axis(axis, rank_of(x)), shape_of(x), shape_of(rows)
        if product(shape_of(at)) not in (1, UNKNOWN) or len(given) != len(shape):
            raise ProgramError(
                f"'at' should be one number and 'rows' have the rank of x {list(shape)}, found "
                f"{show(at)} and {list(given)}"
            )
        for axis_, (size, rows_) in enumerate(zip(shape, given, strict=True)):
            fits = rows_ <= size if axis_ == along else rows_ == size
            if UNKNOWN not in (size, rows_) and not fits:
                raise ProgramError(f"rows {list(given)} do not fit into x {list(shape)}")
        return x


@irdl_op_definition
class DiagEmbed(OpaqueOp):
    """Matrices in two new axes, with the last axis of the input on a diagonal.

    Paddle: diag_embed.
    """

    name = "pd.diag_embed"
    input = operand_def(TENSOR)
    out = result_def(TENSOR)
    offset = integer(0)
    dim1 = integer(-2)
    dim2 = integer(-1)

    @staticmethod
    def infer(input: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
        *batch, length = shape_of(input) or (UNKNOWN,)
        if not rank_of(input):
            raise ProgramError("diag_embed needs a tensor of rank 1 or more")
        first, second = matrix_axes(rank_of(input) + 1, dim1, dim2)
        size = UNKNOWN if length == UNKNOWN else length + abs(offset)
        shape = list(batch)
        for axis in sorted((first, second)):
            shape.insert(axis, size)
        return like(input, shape=shape)


def matrix_axes(rank: int, dim1: int, dim2: int) -> tuple[int, int]:
    """Count the two axes from the front; raise ProgramError when they are equal."""
    first = normalize_axis(dim1, rank, "dim1")
    second = normalize_axis(dim2, rank, "dim2")
    if first == second:
        raise ProgramError(f"dim1 and dim2 should differ, found {dim1} and {dim2}")
    return first, second


@irdl_op_definition
class ShardIndex(PureOp):
    """The number within its shard of an id of that shard, else `ignore_value`.

    Paddle: shard_index.
    """

    name = "pd.shard_index"
    traits = traits_def(Elementwise())
    input = operand_def(TENSOR)
    out = result_def(TENSOR)
    index_num = integer()
    nshards = integer()
    shard_id = integer()
    ignore_value = integer(-1)

    @staticmethod
    def infer(input: Tensor, index_num: int, nshards: int, shard_id: int) -> Tensor:
        check_integer("input", input)
        if index_num < 1 or nshards < 1 or not 0 <= shard_id < nshards:
            raise ProgramError(
                "shard_index needs index_num and nshards above 0 and a shard_id below nshards, "
                f"found {index_num}, {nshards} and {shard_id}"
            )
        return input


@irdl_op_definition
class DequantizeRows(OneTensor, OpaqueOp):
    """Rows [..., 2 + k] of a minimum, a maximum and packed bytes, dequantized: [..., 4 * k].

    The bytes are the bits of the elements, four in each float32; 256 steps lead from the minimum to
    the maximum. Paddle: lookup_table_dequant, after the rows are looked up.
    """

    name = "pd.dequantize_rows"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        shape = shape_of(x)
        if not dtype_of(x).is_floating:
            raise OperandError(f"rows of bytes are floating-point, found {dtype_of(x)}")
        if not shape or shape[-1] in (0, 1):
            raise ProgramError(f"rows of bytes have two elements or more, found {show(x)}")
        wide = dtype_of(x).numpy.itemsize * (shape[-1] - 2)
        return like(x, shape=(*shape[:-1], UNKNOWN if shape[-1] == UNKNOWN else wide))
