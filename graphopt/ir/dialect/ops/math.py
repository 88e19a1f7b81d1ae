"""Elementwise arithmetic, comparisons and logic."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.attrs import flag, number
from graphopt.ir.dialect.ops.base import Binary, Compare, FloatUnary, PureOp, Unary
from graphopt.ir.dialect.ops.complex import real_of
from graphopt.ir.dialect.traits import Elementwise, Linear
from graphopt.ir.dialect.types import (
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    same_dtype,
    shape_of,
)


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


@irdl_op_definition
class Multiply(Binary):
    """x * y. Paddle: elementwise_mul."""

    name = "pd.multiply"


@irdl_op_definition
class Divide(Binary):
    """x / y; integers divide towards zero. Paddle: elementwise_div."""

    name = "pd.divide"


@irdl_op_definition
class Maximum(Binary):
    """The larger of x and y. Paddle: elementwise_max."""

    name = "pd.maximum"


@irdl_op_definition
class Minimum(Binary):
    """The smaller of x and y. Paddle: elementwise_min."""

    name = "pd.minimum"


@irdl_op_definition
class ElementwisePow(Binary):
    """x to the power y. Paddle: elementwise_pow."""

    name = "pd.elementwise_pow"


@irdl_op_definition
class FloorDivide(Binary):
    """x / y, down to a whole number. Paddle: elementwise_floordiv."""

    name = "pd.floor_divide"


@irdl_op_definition
class Remainder(Binary):
    """x - y * floor(x / y), with the sign of y. Paddle: elementwise_mod."""

    name = "pd.remainder"


@irdl_op_definition
class Fmax(Binary):
    """The larger of x and y; a nan loses. Paddle: elementwise_fmax."""

    name = "pd.fmax"


@irdl_op_definition
class Fmin(Binary):
    """The smaller of x and y; a nan loses. Paddle: elementwise_fmin."""

    name = "pd.fmin"


@irdl_op_definition
class Equal(Compare):
    """x == y. Paddle: equal."""

    name = "pd.equal"


@irdl_op_definition
class NotEqual(Compare):
    """x != y. Paddle: not_equal."""

    name = "pd.not_equal"


@irdl_op_definition
class LessThan(Compare):
    """x < y. Paddle: less_than."""

    name = "pd.less_than"


@irdl_op_definition
class LessEqual(Compare):
    """x <= y. Paddle: less_equal."""

    name = "pd.less_equal"


@irdl_op_definition
class GreaterThan(Compare):
    """x > y. Paddle: greater_than."""

    name = "pd.greater_than"


@irdl_op_definition
class GreaterEqual(Compare):
    """x >= y. Paddle: greater_equal."""

    name = "pd.greater_equal"


@irdl_op_definition
class LogicalAnd(Compare):
    """Both are true. Paddle: logical_and."""

    name = "pd.logical_and"


@irdl_op_definition
class LogicalOr(Compare):
    """Either is true. Paddle: logical_or."""

    name = "pd.logical_or"


@irdl_op_definition
class LogicalNot(PureOp):
    """x is false. Paddle: logical_not."""

    name = "pd.logical_not"
    traits = traits_def(Elementwise())
    x = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(x, dtype="bool")


@irdl_op_definition
class Exp(FloatUnary):
    """e to the power x. Paddle: exp."""

    name = "pd.exp"


@irdl_op_definition
class Log(FloatUnary):
    """Natural logarithm. Paddle: log."""

    name = "pd.log"


@irdl_op_definition
class Sqrt(FloatUnary):
    """Square root. Paddle: sqrt."""

    name = "pd.sqrt"


@irdl_op_definition
class Rsqrt(FloatUnary):
    """1 / sqrt(x). Paddle: rsqrt."""

    name = "pd.rsqrt"


@irdl_op_definition
class Erf(FloatUnary):
    """The error function. Paddle: erf."""

    name = "pd.erf"


@irdl_op_definition
class Square(Unary):
    """x * x. Paddle: square."""

    name = "pd.square"


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
class Cast(PureOp):
    """x with another element type. Paddle: cast."""

    name = "pd.cast"
    traits = traits_def(Elementwise())
    x = operand_def(Tensor)
    out = result_def(Tensor)
    dtype = dtype_property()

    @staticmethod
    def infer(x: Tensor, dtype: str) -> Tensor:
        return like(x, dtype=dtype)


@irdl_op_definition
class AddN(PureOp):
    """The sum of tensors of one type. Paddle: sum (the operator), add_n."""

    name = "pd.add_n"
    traits = traits_def(Elementwise(), Linear())
    inputs = var_operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(inputs: tuple[Tensor, ...]) -> Tensor:
        if not inputs:
            raise ProgramError("add_n needs at least one tensor")
        same_dtype(*inputs)
        return like(inputs[0], shape=broadcast_shapes(*(shape_of(t) for t in inputs)))


@irdl_op_definition
class Where(PureOp):
    """x where the condition holds, else y. Paddle: where."""

    name = "pd.where"
    traits = traits_def(Elementwise())
    condition = operand_def(Tensor)
    x = operand_def(Tensor)
    y = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        if dtype_of(condition) != "bool":
            raise ProgramError("the condition must be boolean")
        same_dtype(x, y)
        return like(x, shape=broadcast_shapes(*(shape_of(t) for t in (condition, x, y))))
