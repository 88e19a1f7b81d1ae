"""Fourier transforms (paddle.fft).

`norm` selects the direction that is divided by the number of elements: "backward" or "forward";
"ortho" divides both by its square root. The sizes `n` and `s` cut the input, or pad it with zeros.
Each function raises ValueError for sizes, axes and norms that do not fit. Hermitian functions
(`hfft`, `ihfft`) are the opposite directions of the real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable
from graphopt.nn.functional.vision import pad
from graphopt.tensor.attribute import shape
from graphopt.tensor.creation import assign, full
from graphopt.tensor.manipulation import cast, gather
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import floor_divide
from graphopt.tensor.rearrange import roll

T = TypeVar("T")

_NORMS = ("backward", "forward", "ortho")
_LAST_TWO = (-2, -1)
_COMPLEX = {"float64": "complex128"}


def _axes(x: Variable, s: Any, axes: Any, function: str) -> tuple[list[int], list[int] | None]:
    """Normalize the axes to start from 0, and check the sizes along them."""
    rank = len(arguments.variable(x, "x", function).shape)
    sizes = None if s is None else arguments.integers(s, "s", function)
    if axes is None:
        along = list(range(rank - (rank if sizes is None else len(sizes)), rank))
    else:
        along = arguments.integers(axes, "axes", function)
    if any(not -rank <= axis < rank for axis in along):
        raise ValueError(f"{function}(): axes should be in [-{rank}, {rank}), found {along}")
    if sizes is not None and (len(sizes) != len(along) or min(sizes) < 1):
        raise ValueError(
            f"{function}(): sizes above 0 for axes {along} are expected, found {sizes}"
        )
    return [axis % rank for axis in along], sizes


def _resize_axes(x: Variable, axes: Sequence[int], sizes: Sequence[int]) -> Variable:
    """Cut x at the end, or pad it with zeros, along axes of known size."""
    longer = [0] * (2 * len(x.shape))
    for axis, size in zip(axes, sizes, strict=True):
        if x.shape[axis] > size:
            x = slice_(x, [axis], [0], [size])
        else:
            longer[2 * axis + 1] = size - x.shape[axis]
    return pad(x, longer) if any(longer) else x


def _as_complex(x: Variable) -> Variable:
    if x.dtype in ("complex64", "complex128"):
        return x
    own = x.dtype if x.dtype.is_floating else get_default_dtype()
    return cast(x, _COMPLEX.get(str(own), "complex64"))


# complex to real (c2r) or real to complex (r2c), and whether the transform is forward
_HALVED = {
    "rfft": ("r2c", True),
    "irfft": ("c2r", False),
    "hfft": ("c2r", True),
    "ihfft": ("r2c", False),
}


def _transform(
    function: str, x: Variable, s: Any, axes: Any, norm: str, name: str | None
) -> Variable:
    """Append the operator of a function; `fft` and its inverse keep all frequencies."""
    kind, forward = _HALVED.get(function.removesuffix("n"), ("c2c", function[0] != "i"))
    attrs: dict[str, Any] = {"forward": forward}
    is_real = arguments.variable(x, "x", function).dtype not in ("complex64", "complex128")
    if kind == "c2c" and is_real:
        kind, attrs["onesided"] = "r2c", False
    along, sizes = _axes(x, s, axes, function)
    attrs |= {"axes": along, "normalization": arguments.choice(norm, "norm", function, _NORMS)}
    if kind == "r2c":
        if not is_real:
            raise TypeError(f"{function}(): 'x' must be real, found {x.dtype}")
        x = x if x.dtype.is_floating else cast(x, get_default_dtype())
        attrs.setdefault("onesided", True)
    else:
        x = _as_complex(x)
    if sizes is not None:
        if kind == "c2r":
            attrs["last_dim_size"] = sizes[-1]
            sizes = [*sizes[:-1], sizes[-1] // 2 + 1]
        x = _resize_axes(x, along, sizes)
    return emit(f"fft_{kind}", {"X": x}, attrs, name=name)


def _check_pair(function: str, x: Variable, s: Any, axes: Any) -> None:
    """Raise ValueError unless there are two axes, and two sizes if any."""
    if len(arguments.variable(x, "x", function).shape) < 2:
        raise ValueError(f"{function}(): 'x' should have two axes or more, found {list(x.shape)}")
    for value, word in ((s, "s"), (axes, "axes")):
        if value is not None and len(value) != 2:
            raise ValueError(f"{function}(): '{word}' should have 2 numbers, found {value}")


class _AlongAxis(Protocol):
    def __call__(
        self,
        x: Variable,
        n: int | None = None,
        axis: int = -1,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable: ...


class _AlongAxes(Protocol):
    def __call__(
        self,
        x: Variable,
        s: Any = None,
        axes: Any = None,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable: ...


def _along_axis(function: str, text: str) -> _AlongAxis:
    """Build the function that transforms along one axis."""

    def transform(
        x: Variable,
        n: int | None = None,
        axis: int = -1,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        return _transform(function, x, None if n is None else [n], [axis], norm, name)

    return _name_transform(transform, function, text)


def _along_axes(function: str, text: str) -> _AlongAxes:
    """Build the function that transforms along several axes."""

    def transform(
        x: Variable,
        s: Any = None,
        axes: Any = None,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        return _transform(function, x, s, axes, norm, name)

    return _name_transform(transform, function, text)


def _along_two(function: str) -> _AlongAxes:
    """Build the function that transforms along two axes, the last two by default."""
    several = f"{function[:-1]}n"

    def transform(
        x: Variable,
        s: Any = None,
        axes: Any = _LAST_TWO,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        _check_pair(function, x, s, axes)
        return _transform(several, x, s, axes, norm, name)

    return _name_transform(transform, function, f"Compute `{several}` along two axes")


def _name_transform(transform: T, function: str, text: str) -> T:
    vars_of: Any = transform
    vars_of.__name__ = vars_of.__qualname__ = function
    vars_of.__doc__ = f"{text} (paddle.fft.{function})."
    return transform


fft = _along_axis("fft", "Compute the Fourier transform of real or complex input along an axis")
ifft = _along_axis("ifft", "Compute the inverse of `fft`")
rfft = _along_axis("rfft", "Compute the first n // 2 + 1 frequencies of n real numbers")
irfft = _along_axis("irfft", "Compute the inverse of `rfft`: n real numbers, by default an even n")
hfft = _along_axis("hfft", "Compute the real transform of a Hermitian signal from its first half")
ihfft = _along_axis("ihfft", "Compute the inverse of `hfft`")

fftn = _along_axes("fftn", "Compute `fft` along several axes, by default all")
ifftn = _along_axes("ifftn", "Compute the inverse of `fftn`")
rfftn = _along_axes("rfftn", "Compute `rfft` along the last axis, and `fft` along the others")
irfftn = _along_axes("irfftn", "Compute the inverse of `rfftn`")
hfftn = _along_axes("hfftn", "Compute `hfft` along several axes")
ihfftn = _along_axes("ihfftn", "Compute the inverse of `hfftn`")

fft2, ifft2 = _along_two("fft2"), _along_two("ifft2")
rfft2, irfft2 = _along_two("rfft2"), _along_two("irfft2")
hfft2, ihfft2 = _along_two("hfft2"), _along_two("ihfft2")


def _frequencies(values: Any, n: int, d: float) -> Variable:
    if n * d == 0:
        raise ValueError(f"'n' and 'd' should not be 0, found n={n}, d={d}")
    # times 1 / (n d), as in Paddle
    own = DType(get_default_dtype()).numpy
    return assign(values.astype(own) * np.asarray(1.0 / (n * d), own))


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """Compute the n frequencies of `fft` for samples d apart (paddle.fft.fftfreq).

    The dtype is the default one, whatever `dtype` is.
    """
    return _frequencies(np.roll(np.arange(-(n // 2), (n + 1) // 2), -(n // 2)), n, d)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """Compute the n // 2 + 1 frequencies of `rfft` (paddle.fft.rfftfreq); `dtype` has no effect."""
    return _frequencies(np.arange(n // 2 + 1), n, d)


def _shift_axes(function: str, x: Variable, axes: Any, extra: int, name: str | None) -> Variable:
    along, _ = _axes(x, None, [axes] if isinstance(axes, int) else axes, function)
    sizes: Any = [x.shape[axis] for axis in along]
    if min(sizes, default=0) < 0:
        sizes = gather(shape(x), assign(np.array(along)))
        return roll(x, floor_divide(sizes + extra, full([], 2, sizes.dtype)), along, name)
    return roll(x, [(size + extra) // 2 for size in sizes], along, name)


def fftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """Move frequency 0 to the middle of the axes, all by default (paddle.fft.fftshift)."""
    return _shift_axes("fftshift", x, axes, 0, name)


def ifftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """Invert `fftshift` (paddle.fft.ifftshift)."""
    return _shift_axes("ifftshift", x, axes, 1, name)


publish(globals(), __name__)
