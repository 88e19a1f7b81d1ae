"""Complex numbers and their parts; a real number is its own real part."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.base import Binary, FloatUnary, OpaqueOp, PureOp, Unary
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import UNKNOWN, Tensor, dtype_of, like, shape_of


def real_of(x: Tensor) -> Tensor:
    """The type of one part of complex numbers; of real ones their own."""
    real = {"complex64": "float32", "complex128": "float64"}
    return like(x, dtype=real.get(dtype_of(x), dtype_of(x)))


class Part(FloatUnary, ABC):
    """A real number of each complex one."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return real_of(FloatUnary.infer(x))


@irdl_op_definition
class Real(Part):
    """The real part. Paddle: real."""

    name = "pd.real"


@irdl_op_definition
class Imag(Part):
    """The imaginary part. Paddle: imag."""

    name = "pd.imag"


@irdl_op_definition
class Angle(Part):
    """The angle to the real axis: 0 or pi for real numbers. Paddle: angle."""

    name = "pd.angle"


@irdl_op_definition
class Conj(Unary):
    """The complex conjugate. Paddle: conj."""

    name = "pd.conj"


def complex_of(x: Tensor) -> Tensor:
    """The type of complex numbers with such parts; half types become float32 parts."""
    if not dtype_of(x).is_floating:
        raise ProgramError(f"complex numbers have floating-point parts, found {dtype_of(x)!s}")
    return like(x, dtype="complex128" if dtype_of(x) == "float64" else "complex64")


@irdl_op_definition
class Complex(PureOp):
    """The complex numbers with these parts. Paddle: complex."""

    name = "pd.complex"
    traits = traits_def(Elementwise())
    real = operand_def(Tensor)
    imag = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(real: Tensor, imag: Tensor) -> Tensor:
        return complex_of(Binary.infer(real, imag))


@irdl_op_definition
class AsComplex(OpaqueOp):
    """Complex numbers from a last axis with the two parts. Paddle: as_complex."""

    name = "pd.as_complex"
    x = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        shape = shape_of(x)
        if not shape or shape[-1] not in (2, UNKNOWN):
            raise ProgramError(f"as_complex needs a last axis of size 2, found {list(shape)}")
        return like(complex_of(x), shape=shape[:-1])


@irdl_op_definition
class AsReal(OpaqueOp):
    """Both parts of complex numbers along a new last axis. Paddle: as_real."""

    name = "pd.as_real"
    x = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if not dtype_of(x).is_complex:
            raise ProgramError(f"as_real needs complex numbers, found {dtype_of(x)!s}")
        return like(real_of(x), shape=(*shape_of(x), 2))
