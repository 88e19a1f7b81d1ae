"""Elements of several tensors combined in ways of their own."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import Binary, OpaqueOp, PureOp
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
)


@irdl_op_definition
class Atan2(Binary):
    """The angle of the point (y, x) to the first axis. Paddle: atan2."""

    name = "pd.atan2"

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if not dtype_of(x).is_floating:
            raise ProgramError(f"expected floating-point tensors, found {dtype_of(x)!s}")
        return Binary.infer(x, y)


@irdl_op_definition
class Lerp(PureOp):
    """x + weight * (y - x). Paddle: lerp."""

    name = "pd.lerp"
    traits = traits_def(Elementwise())
    x = operand_def(Tensor)
    y = operand_def(Tensor)
    weight = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        same_dtype(x, y, weight)
        return like(x, shape=broadcast_shapes(*(shape_of(t) for t in (x, y, weight))))


@irdl_op_definition
class Multiplex(OpaqueOp):
    """Row i of the tensor that index[i] names. Paddle: multiplex."""

    name = "pd.multiplex"
    irdl_options = (SEGMENTS,)
    inputs = var_operand_def(Tensor)
    index = operand_def(Tensor)
    out = result_def(Tensor)

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
class Kron(OpaqueOp):
    """Every element of x times the whole of y. Paddle: kron."""

    name = "pd.kron"
    x = operand_def(Tensor)
    y = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_dtype(x, y)
        rank = max(rank_of(x), rank_of(y))
        a, b = ((1,) * (rank - rank_of(t)) + shape_of(t) for t in (x, y))
        return like(x, shape=[product(pair) for pair in zip(a, b, strict=True)])
