"""Elementwise arithmetic, comparisons and logic."""

from __future__ import annotations

from abc import ABC
from functools import partial

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def, var_operand_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, number
from graphopt.ir.dialect.ops.base import (
    Binary,
    Compare,
    FloatUnary,
    OneTensor,
    OpaqueOp,
    PureOp,
    Unary,
    declare,
)
from graphopt.ir.dialect.ops.complex import real_of
from graphopt.ir.dialect.traits import Elementwise, Linear
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    same_dtype,
    same_shape,
    shape_of,
)
from graphopt.ir.dtypes import as_dtype

elementwise = partial(declare, __name__)


@irdl_op_definition
class Add(Binary):
    """x + y. Paddle: elementwise_add."""

    name = "pd.add"
    traits = traits_def(Linear())


@irdl_op_definition
class Subtract(Binary):
    """x - y. Paddle: elementwise_sub."""

    name = "pd.subtract"
    traits = traits_def(Linear())

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if dtype_of(x) == "bool":
            raise OperandError("booleans cannot be subtracted; not_equal says where they differ")
        return Binary.infer(x, y)


class Quotient(Binary, ABC):
    """Elementwise on two tensors of numbers: Paddle has no such kernel of booleans."""

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        _refuse_booleans(x)
        return Binary.infer(x, y)


def _refuse_booleans(x: Tensor) -> None:
    if dtype_of(x) == "bool":
        raise OperandError(
            "booleans have no quotient, remainder or power; cast them: x.astype('int64')"
        )


Multiply = elementwise(Binary, "multiply", "x * y.", paddle="elementwise_mul")
Divide = elementwise(
    Quotient, "divide", "x / y; integers divide towards zero.", paddle="elementwise_div"
)
Maximum = elementwise(Binary, "maximum", "The larger of x and y.", paddle="elementwise_max")
Minimum = elementwise(Binary, "minimum", "The smaller of x and y.", paddle="elementwise_min")
ElementwisePow = elementwise(Quotient, "elementwise_pow", "x to the power y.")
FloorDivide = elementwise(
    Quotient, "floor_divide", "x / y, down to a whole number.", paddle="elementwise_floordiv"
)
Remainder = elementwise(
    Quotient, "remainder", "x - y * floor(x / y), with the sign of y.", paddle="elementwise_mod"
)
Fmax = elementwise(Binary, "fmax", "The larger of x and y; a nan loses.", paddle="elementwise_fmax")
Fmin = elementwise(
    Binary, "fmin", "The smaller of x and y; a nan loses.", paddle="elementwise_fmin"
)
Equal = elementwise(Compare, "equal", "x == y.")
NotEqual = elementwise(Compare, "not_equal", "x != y.")
LessThan = elementwise(Compare, "less_than", "x < y.")
LessEqual = elementwise(Compare, "less_equal", "x <= y.")
GreaterThan = elementwise(Compare, "greater_than", "x > y.")
GreaterEqual = elementwise(Compare, "greater_equal", "x >= y.")
LogicalAnd = elementwise(Compare, "logical_and", "Both are true.")
LogicalOr = elementwise(Compare, "logical_or", "Either is true.")


@irdl_op_definition
class LogicalNot(OneTensor, PureOp):
    """x is false. Paddle: logical_not."""

    name = "pd.logical_not"
    traits = traits_def(Elementwise())

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(x, dtype="bool")


Exp = elementwise(FloatUnary, "exp", "e to the power x.")
Log = elementwise(FloatUnary, "log", "Natural logarithm.")
Sqrt = elementwise(FloatUnary, "sqrt", "Square root.")
Rsqrt = elementwise(FloatUnary, "rsqrt", "1 / sqrt(x).")
Erf = elementwise(FloatUnary, "erf", "The error function.")
Square = elementwise(Unary, "square", "x * x.")


@irdl_op_definition
class Abs(Unary):
    """The absolute value, of complex numbers the magnitude. Paddle: abs."""

    name = "pd.abs"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return real_of(x)


@irdl_op_definition
class Pow(Unary):
    """x to a constant power. Paddle: pow."""

    name = "pd.pow"
    factor = number(1.0)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        _refuse_booleans(x)
        return Unary.infer(x)


@irdl_op_definition
class Clip(Unary):
    """x limited to [min, max]. Paddle: clip."""

    name = "pd.clip"
    min = number()
    max = number()


@irdl_op_definition
class Scale(Unary):
    """scale * x + bias, or scale * (x + bias). Paddle: scale."""

    name = "pd.scale"
    scale = number(1.0)
    bias = number(0.0)
    bias_after_scale = flag(True)


@irdl_op_definition
class Cast(OneTensor, PureOp):
    """x with another element type. Paddle: cast."""

    name = "pd.cast"
    traits = traits_def(Elementwise())
    dtype = dtype_property()

    @staticmethod
    def infer(x: Tensor, dtype: str) -> Tensor:
        return like(x, dtype=dtype)


@irdl_op_definition
class ViewDtype(OneTensor, OpaqueOp):
    """The bytes of x as numbers of another type. Paddle: view_dtype.

    Where these are longer or shorter the last axis has fewer or more of them.
    """

    name = "pd.view_dtype"
    dtype = dtype_property()

    @staticmethod
    def infer(x: Tensor, dtype: str) -> Tensor:
        shape, kinds = shape_of(x), (dtype_of(x), as_dtype(dtype))
        if any(kind.is_complex or kind.endswith(("int2", "int4")) for kind in kinds):
            raise OperandError(f"the bytes of {kinds[0]} cannot be numbers of {kinds[1]}")
        old, new = (kind.numpy.itemsize for kind in kinds)
        if old == new:
            return like(x, dtype=dtype)
        if not shape or (shape[-1] != UNKNOWN and shape[-1] * old % new):
            raise ProgramError(
                f"{list(shape)} numbers of {old} bytes are no numbers of {new} along the last axis"
            )
        last = UNKNOWN if shape[-1] == UNKNOWN else shape[-1] * old // new
        return like(x, shape=(*shape[:-1], last), dtype=dtype)


@irdl_op_definition
class AddN(PureOp):
    """The sum of tensors of one shape and dtype. Paddle: sum (the operator), add_n."""

    name = "pd.add_n"
    traits = traits_def(Elementwise(), Linear())
    inputs = var_operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(inputs: tuple[Tensor, ...]) -> Tensor:
        if not inputs:
            raise ProgramError("add_n needs at least one tensor")
        same_dtype(*inputs)
        return like(inputs[0], shape=same_shape(*inputs))


@irdl_op_definition
class Where(PureOp):
    """x where the condition holds, else y. Paddle: where."""

    name = "pd.where"
    traits = traits_def(Elementwise())
    condition = operand_def(TENSOR)
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        if dtype_of(condition) != "bool":
            raise OperandError("the condition must be boolean")
        same_dtype(x, y)
        return like(x, shape=broadcast_shapes(*(shape_of(t) for t in (condition, x, y))))
