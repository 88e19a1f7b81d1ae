"""Special functions, and numbers by their bits, signs and divisors."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer
from graphopt.ir.dialect.ops.base import Binary, PureOp, RealUnary
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import Tensor, dtype_of


@irdl_op_definition
class I0(RealUnary):
    """Modified Bessel function of the first kind and order 0. Paddle: i0."""

    name = "pd.i0"


@irdl_op_definition
class I0e(RealUnary):
    """exp(-|x|) times i0. Paddle: i0e."""

    name = "pd.i0e"


@irdl_op_definition
class I1(RealUnary):
    """Modified Bessel function of the first kind and order 1. Paddle: i1."""

    name = "pd.i1"


@irdl_op_definition
class I1e(RealUnary):
    """exp(-|x|) times i1. Paddle: i1e."""

    name = "pd.i1e"


@irdl_op_definition
class Polygamma(PureOp):
    """The n-th derivative of digamma. Paddle: polygamma."""

    name = "pd.polygamma"
    traits = traits_def(Elementwise())
    x = operand_def(Tensor)
    out = result_def(Tensor)
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
            raise ProgramError(f"expected tensors of real floating-point numbers, found {x}")
        return Binary.infer(x, y)


@irdl_op_definition
class Gammaincc(RealBinary):
    """The regularised upper incomplete gamma function of order x at y. Paddle: gammaincc."""

    name = "pd.gammaincc"


@irdl_op_definition
class Nextafter(RealBinary):
    """The next number after x in the direction of y. Paddle: nextafter."""

    name = "pd.nextafter"


@irdl_op_definition
class Copysign(RealBinary):
    """The size of x with the sign of y. Paddle: copysign."""

    name = "pd.copysign"


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
            raise ProgramError(f"expected integer tensors, found {dtype_of(x)!s}")
        return Binary.infer(x, y)


@irdl_op_definition
class Gcd(IntegerBinary):
    """The greatest common divisor; Paddle writes it as a loop of remainders."""

    name = "pd.gcd"


class Shift(IntegerBinary, ABC):
    """The bits of x moved by y places; `is_arithmetic` keeps the sign."""

    is_arithmetic = flag(True)


@irdl_op_definition
class BitwiseLeftShift(Shift):
    """The bits of x moved to higher places. Paddle: bitwise_left_shift."""

    name = "pd.bitwise_left_shift"


@irdl_op_definition
class BitwiseRightShift(Shift):
    """The bits of x moved to lower places. Paddle: bitwise_right_shift."""

    name = "pd.bitwise_right_shift"
