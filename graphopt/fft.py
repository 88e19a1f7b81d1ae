"""Fourier transforms (paddle.fft).

`norm` says which direction is divided by the number of elements: "backward", "forward", or "ortho"
for the root of it in both. The sizes `n` and `s` cut the input, or pad it with zeros. Each function
raises ValueError for sizes, axes and norms that do not fit. Hermitian functions (`hfft`, `ihfft`)
are the opposite directions of the real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable
from graphopt.nn.functional.vision import pad
from graphopt.tensor.creation import assign
from graphopt.tensor.manipulation import cast
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.rearrange import roll

_NORMS = ("backward", "forward", "ortho")
_LAST_TWO = (-2, -1)
_COMPLEX = {"float64": "complex128"}


def _axes(x: Variable, s: Any, axes: Any, function: str) -> tuple[list[int], list[int] | None]:
    """The axes from 0 on, and the sizes along them."""
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


def _resized(x: Variable, axes: Sequence[int], sizes: Sequence[int]) -> Variable:
    """x cut at the end, or padded with zeros, along axes of known size."""
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


def _is_real(x: Any, function: str) -> bool:
    return arguments.variable(x, "x", function).dtype not in ("complex64", "complex128")


def _transform(
    function: str,
    x: Variable,
    s: Any,
    axes: Any,
    norm: str,
    name: str | None,
    *,
    kind: str,
    forward: bool,
    onesided: bool = True,
) -> Variable:
    """One operator: `kind` is c2c, r2c or c2r, complex or real to complex or real."""
    along, sizes = _axes(x, s, axes, function)
    attrs: dict[str, Any] = {
        "axes": along,
        "normalization": arguments.choice(norm, "norm", function, _NORMS),
        "forward": forward,
    }
    if kind == "r2c":
        if not _is_real(x, function):
            raise TypeError(f"{function}(): 'x' must be real, found {x.dtype!s}")
        x = x if x.dtype.is_floating else cast(x, get_default_dtype())
        attrs["onesided"] = onesided
    else:
        x = _as_complex(x)
    if sizes is not None:
        if kind == "c2r":
            attrs["last_dim_size"] = sizes[-1]
            sizes = [*sizes[:-1], sizes[-1] // 2 + 1]
        x = _resized(x, along, sizes)
    return emit(f"fft_{kind}", {"X": x}, attrs, name=name)


def _whole(function: str, x: Variable, s: Any, axes: Any, norm: str, name: str | None) -> Variable:
    """All frequencies of real or complex numbers; ifft, ifft2 and ifftn go back."""
    forward = not function.startswith("i")
    if _is_real(x, function):
        return _transform(
            function, x, s, axes, norm, name, kind="r2c", forward=forward, onesided=False
        )
    return _transform(function, x, s, axes, norm, name, kind="c2c", forward=forward)


def _one(n: int | None) -> list[int] | None:
    return None if n is None else [n]


def _pair(function: str, x: Variable, s: Any, axes: Any) -> None:
    """ValueError unless there are two axes, and two sizes if any."""
    if len(arguments.variable(x, "x", function).shape) < 2:
        raise ValueError(f"{function}(): 'x' should have two axes or more, found {list(x.shape)}")
    for value, word in ((s, "s"), (axes, "axes")):
        if value is not None and len(value) != 2:
            raise ValueError(f"{function}(): '{word}' should have 2 numbers, found {value}")


def fft(
    x: Variable,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """The transform along an axis, of real or complex numbers (paddle.fft.fft)."""
    return _whole("fft", x, _one(n), [axis], norm, name)


def ifft(
    x: Variable,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """The inverse of `fft` (paddle.fft.ifft)."""
    return _whole("ifft", x, _one(n), [axis], norm, name)


def rfft(
    x: Variable,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """The first n // 2 + 1 frequencies of n real numbers (paddle.fft.rfft)."""
    return _transform("rfft", x, _one(n), [axis], norm, name, kind="r2c", forward=True)


def irfft(
    x: Variable,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """The inverse of `rfft`: n real numbers, an even number by default (paddle.fft.irfft)."""
    return _transform("irfft", x, _one(n), [axis], norm, name, kind="c2r", forward=False)


def hfft(
    x: Variable,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """The real transform of one half of a Hermitian signal (paddle.fft.hfft)."""
    return _transform("hfft", x, _one(n), [axis], norm, name, kind="c2r", forward=True)


def ihfft(
    x: Variable,
    n: int | None = None,
    axis: int = -1,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """The inverse of `hfft` (paddle.fft.ihfft)."""
    return _transform("ihfft", x, _one(n), [axis], norm, name, kind="r2c", forward=False)


def fftn(
    x: Variable, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None
) -> Variable:
    """As `fft`, along several axes, all by default (paddle.fft.fftn)."""
    return _whole("fftn", x, s, axes, norm, name)


def ifftn(
    x: Variable, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None
) -> Variable:
    """The inverse of `fftn` (paddle.fft.ifftn)."""
    return _whole("ifftn", x, s, axes, norm, name)


def rfftn(
    x: Variable, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None
) -> Variable:
    """As `rfft`, along several axes; the last one is halved (paddle.fft.rfftn)."""
    return _transform("rfftn", x, s, axes, norm, name, kind="r2c", forward=True)


def irfftn(
    x: Variable, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None
) -> Variable:
    """The inverse of `rfftn` (paddle.fft.irfftn)."""
    return _transform("irfftn", x, s, axes, norm, name, kind="c2r", forward=False)


def hfftn(
    x: Variable, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None
) -> Variable:
    """As `hfft`, along several axes (paddle.fft.hfftn)."""
    return _transform("hfftn", x, s, axes, norm, name, kind="c2r", forward=True)


def ihfftn(
    x: Variable, s: Any = None, axes: Any = None, norm: str = "backward", name: str | None = None
) -> Variable:
    """The inverse of `hfftn` (paddle.fft.ihfftn)."""
    return _transform("ihfftn", x, s, axes, norm, name, kind="r2c", forward=False)


def fft2(
    x: Variable,
    s: Any = None,
    axes: Any = _LAST_TWO,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """`fftn` along two axes (paddle.fft.fft2)."""
    _pair("fft2", x, s, axes)
    return fftn(x, s, axes, norm, name)


def ifft2(
    x: Variable,
    s: Any = None,
    axes: Any = _LAST_TWO,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """`ifftn` along two axes (paddle.fft.ifft2)."""
    _pair("ifft2", x, s, axes)
    return ifftn(x, s, axes, norm, name)


def rfft2(
    x: Variable,
    s: Any = None,
    axes: Any = _LAST_TWO,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """`rfftn` along two axes (paddle.fft.rfft2)."""
    _pair("rfft2", x, s, axes)
    return rfftn(x, s, axes, norm, name)


def irfft2(
    x: Variable,
    s: Any = None,
    axes: Any = _LAST_TWO,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """`irfftn` along two axes (paddle.fft.irfft2)."""
    _pair("irfft2", x, s, axes)
    return irfftn(x, s, axes, norm, name)


def hfft2(
    x: Variable,
    s: Any = None,
    axes: Any = _LAST_TWO,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """`hfftn` along two axes (paddle.fft.hfft2)."""
    _pair("hfft2", x, s, axes)
    return hfftn(x, s, axes, norm, name)


def ihfft2(
    x: Variable,
    s: Any = None,
    axes: Any = _LAST_TWO,
    norm: str = "backward",
    name: str | None = None,
) -> Variable:
    """`ihfftn` along two axes (paddle.fft.ihfft2)."""
    _pair("ihfft2", x, s, axes)
    return ihfftn(x, s, axes, norm, name)


def _frequencies(values: Any, n: int, d: float) -> Variable:
    if n * d == 0:
        raise ValueError(f"'n' and 'd' should not be 0, found n={n}, d={d}")
    # multiplied by 1 / (n d), as Paddle does
    own = DType(get_default_dtype()).numpy
    return assign(values.astype(own) * np.asarray(1.0 / (n * d), own))


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """The n frequencies of `fft` for samples d apart (paddle.fft.fftfreq).

    The dtype is the default one, whatever `dtype` says.
    """
    return _frequencies(np.roll(np.arange(-(n // 2), (n + 1) // 2), -(n // 2)), n, d)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """The n // 2 + 1 frequencies of `rfft` (paddle.fft.rfftfreq); `dtype` has no effect."""
    return _frequencies(np.arange(n // 2 + 1), n, d)


def _shifted(function: str, x: Variable, axes: Any, extra: int, name: str | None) -> Variable:
    along, _ = _axes(x, None, [axes] if isinstance(axes, int) else axes, function)
    sizes = [x.shape[axis] for axis in along]
    if min(sizes, default=0) < 0:
        raise ValueError(
            f"{function}(): the sizes of axes {along} of {list(x.shape)} must be known"
        )
    return roll(x, [(size + extra) // 2 for size in sizes], along, name)


def fftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """Frequency 0 moved to the middle of the axes, all by default (paddle.fft.fftshift)."""
    return _shifted("fftshift", x, axes, 0, name)


def ifftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """The inverse of `fftshift` (paddle.fft.ifftshift)."""
    return _shifted("ifftshift", x, axes, 1, name)


publish(globals(), __name__)
