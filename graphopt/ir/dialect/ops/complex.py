"""Complex numbers and their parts, and discrete Fourier transforms.

A real number is its own real part. A `forward` transform has a negative exponent. `normalization`
names the direction that is divided by the number of points: "backward", "forward", or "ortho",
where each is divided by its square root.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from functools import partial

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, string
from graphopt.ir.dialect.ops.base import (
    Binary,
    FloatUnary,
    OneTensor,
    OpaqueOp,
    PureOp,
    Unary,
    declare,
)
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    normalize_axis,
    rank_of,
    shape_of,
)

elementwise = partial(declare, __name__)


def real_of(x: Tensor) -> Tensor:
    """Return the type of a part of complex numbers; a real type is returned unchanged."""
    real = {"complex64": "float32", "complex128": "float64"}
    return like(x, dtype=real.get(dtype_of(x), dtype_of(x)))


class Part(FloatUnary, ABC):
    """A real number of each complex one."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return real_of(FloatUnary.infer(x))


Real = elementwise(Part, "real", "The real part.")
Imag = elementwise(Part, "imag", "The imaginary part.")
Angle = elementwise(Part, "angle", "The angle to the real axis: 0 or pi for real numbers.")


Conj = elementwise(Unary, "conj", "The complex conjugate.")


def complex_of(x: Tensor) -> Tensor:
    """Return the type of complex numbers with such parts; half types become float32 parts."""
    if not dtype_of(x).is_floating:
        raise OperandError(f"complex numbers have floating-point parts, found {dtype_of(x)}")
    return like(x, dtype="complex128" if dtype_of(x) == "float64" else "complex64")


@irdl_op_definition
class Complex(PureOp):
    """The complex numbers with these parts. Paddle: complex."""

    name = "pd.complex"
    traits = traits_def(Elementwise())
    real = operand_def(TENSOR)
    imag = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(real: Tensor, imag: Tensor) -> Tensor:
        return complex_of(Binary.infer(real, imag))


@irdl_op_definition
class AsComplex(OneTensor, OpaqueOp):
    """Complex numbers from a last axis with the two parts. Paddle: as_complex."""

    name = "pd.as_complex"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        shape = shape_of(x)
        if not shape or shape[-1] not in (2, UNKNOWN):
            raise ProgramError(f"as_complex needs a last axis of size 2, found {list(shape)}")
        return like(complex_of(x), shape=shape[:-1])


@irdl_op_definition
class AsReal(OneTensor, OpaqueOp):
    """Both parts of complex numbers along a new last axis. Paddle: as_real."""

    name = "pd.as_real"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        if not dtype_of(x).is_complex:
            raise OperandError(f"as_real needs complex numbers, found {dtype_of(x)}")
        return like(real_of(x), shape=(*shape_of(x), 2))


NORMALIZATIONS = ("backward", "ortho", "forward")


class Transform(OneTensor, OpaqueOp, ABC):
    """One value for each frequency, or back."""

    axes = integers(())
    normalization = string("backward", of=("backward", "ortho", "forward"))
    forward = flag(True)


def _check_axes(x: Tensor, axes: Sequence[int], normalization: str) -> tuple[int, ...]:
    if normalization not in NORMALIZATIONS:
        raise ProgramError(
            f"normalization is one of {', '.join(NORMALIZATIONS)}, found {normalization!r}"
        )
    if not axes:
        raise ProgramError("a Fourier transform needs at least one axis")
    found = tuple(normalize_axis(axis, rank_of(x)) for axis in axes)
    if len(set(found)) < len(found):
        raise ProgramError(f"a Fourier transform needs different axes, found {list(axes)}")
    return found


def _complex(x: Tensor) -> Tensor:
    if not dtype_of(x).is_complex:
        raise OperandError(f"this transform takes complex numbers, found {dtype_of(x)}")
    return x


def _resize_axis(x: Tensor, axis: int, size: int) -> Tensor:
    shape = list(shape_of(x))
    shape[axis] = size
    return like(x, shape=shape)


@irdl_op_definition
class FftC2c(Transform):
    """Complex to complex. Paddle: fft_c2c."""

    name = "pd.fft_c2c"

    @staticmethod
    def infer(x: Tensor, axes: tuple[int, ...], normalization: str) -> Tensor:
        _check_axes(x, axes, normalization)
        return _complex(x)


@irdl_op_definition
class FftR2c(Transform):
    """Real to complex; `onesided` leaves out half of the last of `axes`, which the rest implies.

    Paddle: fft_r2c.
    """

    name = "pd.fft_r2c"
    onesided = flag(True)

    @staticmethod
    def infer(x: Tensor, axes: tuple[int, ...], normalization: str, onesided: bool) -> Tensor:
        last = _check_axes(x, axes, normalization)[-1]
        size = shape_of(x)[last]
        half = UNKNOWN if size == UNKNOWN else size // 2 + 1
        return _resize_axis(complex_of(x), last, half if onesided else size)


@irdl_op_definition
class FftC2r(Transform):
    """Complex to real, from one side of the last of `axes`, which becomes `last_dim_size` long.

    With `last_dim_size` 0 it becomes even: 2 (n - 1). Paddle: fft_c2r.
    """

    name = "pd.fft_c2r"
    last_dim_size = integer(0)

    @staticmethod
    def infer(x: Tensor, axes: tuple[int, ...], normalization: str, last_dim_size: int) -> Tensor:
        last = _check_axes(x, axes, normalization)[-1]
        size = shape_of(_complex(x))[last]
        even = UNKNOWN if size == UNKNOWN else 2 * (size - 1)
        return _resize_axis(real_of(x), last, last_dim_size or even)
