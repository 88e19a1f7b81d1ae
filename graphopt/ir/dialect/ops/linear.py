"""Matrix products, and other maps with a weight."""

from __future__ import annotations

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
)

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, string
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import OpaqueOp, PureOp, TwoTensors
from graphopt.ir.dialect.traits import Rowwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Shape,
    Tensor,
    broadcast_shapes,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
)


def check_kernel(kernel: str) -> None:
    """Raise ProgramError for a library that computes no op; empty is XLA."""
    if kernel not in ("", "onednn"):
        raise ProgramError(f"kernel must be 'onednn' or empty, found '{kernel}'")


def matmul_type(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Tensor:
    """Infer the type of a matrix product by NumPy's rules; transposes do not apply to vectors."""
    same_dtype(x, y)
    a, b = shape_of(x), shape_of(y)
    if not a or not b:
        raise ProgramError("matmul needs tensors of rank 1 or more")
    rows, inner_x = _kept_and_contracted(a, transpose_x)
    columns, inner_y = _kept_and_contracted(b, not transpose_y)
    if inner_x != inner_y and UNKNOWN not in (inner_x, inner_y):
        raise ProgramError(
            f"matmul contracts dimensions of different size: {inner_x} in x {list(a)} "
            f"against {inner_y} in y {list(b)}"
        )
    batch = broadcast_shapes(a[:-2], b[:-2])
    return like(x, shape=(*batch, *rows, *columns))


def _kept_and_contracted(shape: Shape, contract_first: bool) -> tuple[Shape, int]:
    """Split the dimensions of a matrix (or vector) into the kept ones and the contracted one."""
    if len(shape) == 1:
        return (), shape[0]
    first, second = shape[-2:]
    return ((second,), first) if contract_first else ((first,), second)


def _has_rows(op: PdOp) -> bool:
    """Return whether a product by one matrix keeps the first axis of x in the result."""
    x, y = (rank_of(value.type) for value in op.operands)
    return y == 2 and x > 1 and (not op.attr("transpose_x") or x > 2)


@irdl_op_definition
class Matmul(TwoTensors, PureOp):
    """Matrix product with broadcast batch dimensions. Paddle: matmul_v2; mul for two matrices.

    `kernel` is the library that computes it and its derivative, empty for XLA; a pass sets it.
    """

    name = "pd.matmul"
    traits = traits_def(Rowwise(when=_has_rows))
    transpose_x = flag(False)
    transpose_y = flag(False)
    kernel = string("")

    @staticmethod
    def infer(
        x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool, kernel: str = ""
    ) -> Tensor:
        check_kernel(kernel)
        return matmul_type(x, y, transpose_x, transpose_y)


@irdl_op_definition
class Bilinear(OpaqueOp):
    """x @ weight[k] @ y for each k, and a bias [1, k]. Paddle: bilinear_tensor_product."""

    name = "pd.bilinear"
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        same_dtype(x, y, weight)
        if (rank_of(x), rank_of(y), rank_of(weight)) != (2, 2, 3):
            raise ProgramError("bilinear needs x [n, i], y [n, j] and a weight [k, i, j]")
        (rows, first), (others, second), sizes = shape_of(x), shape_of(y), shape_of(weight)
        for mine, wanted in ((rows, others), (first, sizes[1]), (second, sizes[2])):
            if UNKNOWN not in (mine, wanted) and mine != wanted:
                raise ProgramError(
                    f"x {list(shape_of(x))} and y {list(shape_of(y))} do not fit the weight "
                    f"{list(sizes)} of bilinear"
                )
        if bias is not None:
            broadcast_shapes((sizes[0],), shape_of(bias)[-1:])
        return like(x, shape=(others if rows == UNKNOWN else rows, sizes[0]))


@irdl_op_definition
class RowConv(OpaqueOp):
    """A weighted sum of each step and the steps that follow it. Paddle: row_conv."""

    name = "pd.row_conv"
    x = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, filter: Tensor) -> Tensor:
        same_dtype(x, filter)
        if rank_of(x) != 3 or rank_of(filter) != 2:
            raise ProgramError(
                "row_conv needs x [n, steps, size] and a filter [context + 1, size], found "
                f"{list(shape_of(x))} and {list(shape_of(filter))}"
            )
        broadcast_shapes(shape_of(x)[2:], shape_of(filter)[1:])
        return x


@irdl_op_definition
class Kron(TwoTensors, OpaqueOp):
    """Every element of x times the whole of y. Paddle: kron."""

    name = "pd.kron"

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_dtype(x, y)
        rank = max(rank_of(x), rank_of(y))
        a, b = ((1,) * (rank - rank_of(t)) + shape_of(t) for t in (x, y))
        return like(x, shape=[product(pair) for pair in zip(a, b, strict=True)])
