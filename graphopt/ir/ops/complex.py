"""Parts of complex numbers; a real number is its own real part."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition

from graphopt.ir.ops.base import FloatUnary, Unary
from graphopt.ir.types import Tensor, dtype_of, like


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
