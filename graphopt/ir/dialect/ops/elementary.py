"""Elementary and special functions of elements: trigonometric, logarithmic, rounding, bits.

A function without properties is one line here, and one in `lowering/ops/elementary.py`. Paddle's
operator has the same name, from X to Out.
"""

from __future__ import annotations

from abc import ABC
from functools import partial

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number
from graphopt.ir.dialect.ops.base import (
    Binary,
    FloatUnary,
    NumberUnary,
    OneTensor,
    PureOp,
    RealUnary,
    Unary,
    declare,
)
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import (
    TENSOR,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    same_dtype,
    shape_of,
)

elementwise = partial(declare, __name__)

Sin = elementwise(FloatUnary, "sin", "Sine.")
Cos = elementwise(FloatUnary, "cos", "Cosine.")
Tan = elementwise(FloatUnary, "tan", "Tangent.")
Asin = elementwise(FloatUnary, "asin", "Inverse sine.")
Acos = elementwise(FloatUnary, "acos", "Inverse cosine.")
Atan = elementwise(FloatUnary, "atan", "Inverse tangent.")
Sinh = elementwise(FloatUnary, "sinh", "Hyperbolic sine.")
Cosh = elementwise(FloatUnary, "cosh", "Hyperbolic cosine.")
Asinh = elementwise(FloatUnary, "asinh", "Inverse hyperbolic sine.")
Acosh = elementwise(FloatUnary, "acosh", "Inverse hyperbolic cosine.")
Atanh = elementwise(FloatUnary, "atanh", "Inverse hyperbolic tangent.")
Log2 = elementwise(FloatUnary, "log2", "Logarithm to base 2.")
Log10 = elementwise(FloatUnary, "log10", "Logarithm to base 10.")
Log1p = elementwise(FloatUnary, "log1p", "log(1 + x), exact for small x.")
Expm1 = elementwise(FloatUnary, "expm1", "exp(x) - 1, exact for small x.")
Reciprocal = elementwise(FloatUnary, "reciprocal", "1 / x.")
Erfinv = elementwise(RealUnary, "erfinv", "Inverse of the error function.")
Lgamma = elementwise(RealUnary, "lgamma", "Logarithm of the absolute value of the gamma function.")
Digamma = elementwise(RealUnary, "digamma", "Derivative of lgamma.")
Floor = elementwise(NumberUnary, "floor", "The nearest whole number not above x.")
Ceil = elementwise(NumberUnary, "ceil", "The nearest whole number not below x.")
Round = elementwise(NumberUnary, "round", "The nearest whole number; halves go away from zero.")
Trunc = elementwise(Unary, "trunc", "The whole part, towards zero.")
Sign = elementwise(Unary, "sign", "-1, 0 or 1.")


@irdl_op_definition
class Stanh(FloatUnary):
    """scale_b * tanh(scale_a * x). Paddle: stanh."""

    name = "pd.stanh"
    scale_a = number(0.67)
    scale_b = number(1.7159)


@irdl_op_definition
class Logit(RealUnary):
    """log(x / (1 - x)); x is first kept in [eps, 1 - eps] when eps is not 0. Paddle: logit."""

    name = "pd.logit"
    eps = number(1e-6)


I0 = elementwise(RealUnary, "i0", "Modified Bessel function of the first kind and order 0.")
I0e = elementwise(RealUnary, "i0e", "exp(-|x|) times i0.")
I1 = elementwise(RealUnary, "i1", "Modified Bessel function of the first kind and order 1.")
I1e = elementwise(RealUnary, "i1e", "exp(-|x|) times i1.")


@irdl_op_definition
class Polygamma(OneTensor, PureOp):
    """The n-th derivative of digamma. Paddle: polygamma."""

    name = "pd.polygamma"
    traits = traits_def(Elementwise())
    n = integer()

    @staticmethod
    def infer(x: Tensor, n: int) -> Tensor:
        if n < 0:
            raise ProgramError(f"polygamma needs an order n of 0 or more, found {n}")
        return RealUnary.infer(x)


class RealBinary(Binary, ABC):
    """On two tensors of real floating-point numbers."""

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if not dtype_of(x).is_floating:
            raise OperandError(f"expected tensors of real floating-point numbers, found {x}")
        return Binary.infer(x, y)


Gammaincc = elementwise(
    RealBinary, "gammaincc", "The regularised upper incomplete gamma function of order x at y."
)
Nextafter = elementwise(RealBinary, "nextafter", "The next number after x in the direction of y.")


class NumberBinary(Binary, ABC):
    """On two tensors of real numbers, whole ones and bools too."""

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if dtype_of(x).is_complex:
            raise OperandError(f"expected tensors of real numbers, found {x}")
        return Binary.infer(x, y)


Copysign = elementwise(NumberBinary, "copysign", "The size of x with the sign of y.")


@irdl_op_definition
class Heaviside(Binary):
    """0 where x is negative, 1 where it is positive, y where it is 0.

    Paddle: elementwise_heaviside.
    """

    name = "pd.heaviside"


class IntegerBinary(Binary, ABC):
    """On two tensors of integers."""

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if not dtype_of(x).startswith(("int", "uint")):
            raise OperandError(f"expected integer tensors, found {dtype_of(x)}")
        return Binary.infer(x, y)


@irdl_op_definition
class Gcd(IntegerBinary):
    """The greatest common divisor; Paddle writes it as a loop of remainders."""

    name = "pd.gcd"


class Shift(IntegerBinary, ABC):
    """The bits of x moved by y places; `is_arithmetic` keeps the sign."""

    is_arithmetic = flag(True)


BitwiseLeftShift = elementwise(Shift, "bitwise_left_shift", "The bits of x moved to higher places.")
BitwiseRightShift = elementwise(
    Shift, "bitwise_right_shift", "The bits of x moved to lower places."
)


@irdl_op_definition
class Atan2(Binary):
    """The angle of the point (y, x) to the first axis. Paddle: atan2."""

    name = "pd.atan2"

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if not dtype_of(x).is_floating:
            raise OperandError(f"expected floating-point tensors, found {dtype_of(x)}")
        return Binary.infer(x, y)


@irdl_op_definition
class Lerp(PureOp):
    """x + weight * (y - x). Paddle: lerp."""

    name = "pd.lerp"
    traits = traits_def(Elementwise())
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        same_dtype(x, y, weight)
        return like(x, shape=broadcast_shapes(*(shape_of(t) for t in (x, y, weight))))
