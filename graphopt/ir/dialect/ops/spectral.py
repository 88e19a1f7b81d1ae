"""Discrete Fourier transforms over several axes.

`forward` has a negative exponent. `normalization` says which direction is divided by the number of
points: "backward", "forward", or "ortho", each by its square root.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, string
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.complex import complex_of, real_of
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    normalize_axis,
    rank_of,
    shape_of,
)

NORMALIZATIONS = ("backward", "ortho", "forward")


class Transform(OpaqueOp, ABC):
    """One value for each frequency, or back."""

    x = operand_def(Tensor)
    out = result_def(Tensor)
    axes = integers(())
    normalization = string("backward")
    forward = flag(True)


def _checked(x: Tensor, axes: Sequence[int], normalization: str) -> tuple[int, ...]:
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
        raise ProgramError(f"this transform takes complex numbers, found {dtype_of(x)!s}")
    return x


def _resized(x: Tensor, axis: int, size: int) -> Tensor:
    shape = list(shape_of(x))
    shape[axis] = size
    return like(x, shape=shape)


@irdl_op_definition
class FftC2c(Transform):
    """Complex to complex. Paddle: fft_c2c."""

    name = "pd.fft_c2c"

    @staticmethod
    def infer(x: Tensor, axes: tuple[int, ...], normalization: str) -> Tensor:
        _checked(x, axes, normalization)
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
        last = _checked(x, axes, normalization)[-1]
        size = shape_of(x)[last]
        half = UNKNOWN if size == UNKNOWN else size // 2 + 1
        return _resized(complex_of(x), last, half if onesided else size)


@irdl_op_definition
class FftC2r(Transform):
    """Complex to real, from one side of the last of `axes`, which becomes `last_dim_size` long.

    With `last_dim_size` 0 it becomes even: 2 (n - 1). Paddle: fft_c2r.
    """

    name = "pd.fft_c2r"
    last_dim_size = integer(0)

    @staticmethod
    def infer(x: Tensor, axes: tuple[int, ...], normalization: str, last_dim_size: int) -> Tensor:
        last = _checked(x, axes, normalization)[-1]
        size = shape_of(_complex(x))[last]
        even = UNKNOWN if size == UNKNOWN else 2 * (size - 1)
        return _resized(real_of(x), last, last_dim_size or even)
