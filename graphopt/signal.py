"""Frames of signals, and short-time Fourier transforms (paddle.signal)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.fft import fft, ifft, irfft, rfft
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable
from graphopt.nn.functional.vision import pad
from graphopt.tensor.creation import assign, full
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, concat, gather, reshape, squeeze, unsqueeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, divide, multiply, scale
from graphopt.tensor.places import index_add
from graphopt.tensor.ranges import arange
from graphopt.tensor.rearrange import flip, tile

_PADS = ("constant", "reflect")


def _places(count: Any, length: Any, hop: int) -> Variable:
    """List the index in the signal of each element of the frames, frame after frame.

    The number of frames and their length are numbers or Variables.
    """
    if isinstance(count, Variable) or isinstance(length, Variable):
        starts = scale(arange(0, count, 1, "int64"), hop)
        return reshape(add(unsqueeze(starts, [1]), arange(0, length, 1, "int64")), [-1])
    starts = np.arange(count) * hop
    return assign((starts[:, None] + np.arange(length)).reshape(-1).astype("int64"))


def _window(
    function: str, window: Any, n_fft: int, win_length: int | None, dtype: Any
) -> tuple[Variable, int]:
    """Pad the window with zeros at both ends to [n_fft]; return it and its own length."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise ValueError(f"{function}(): 'win_length' should be in (0, {n_fft}], found {length}")
    if window is None:
        made = full([length], 1.0, dtype)
    else:
        made = arguments.variable(window, "window", function)
        if list(made.shape) != [length]:
            raise ValueError(
                f"{function}(): 'window' should be [{length}], found {list(made.shape)}"
            )
    left = (n_fft - length) // 2
    return (pad(made, [left, n_fft - length - left]) if length < n_fft else made), length


def _is_below(size: Any, least: int) -> bool:
    """True for a known size below `least`."""
    return not isinstance(size, Variable) and size < least


def _mirror_ends(x: Variable, n: int) -> Variable:
    """Extend x [b, t] by n elements at both ends, by reflection."""
    size = size_of(x, 1)
    ends = slice_(x, [1], [1], [n + 1]), slice_(x, [1], [size - n - 1], [size - 1])
    return concat([flip(ends[0], [1]), x, flip(ends[1], [1])], 1)


def frame(
    x: Variable, frame_length: int, hop_length: int, axis: int = -1, name: str | None = None
) -> Variable:
    """Cut a signal into frames, which may overlap (paddle.signal.frame).

    A signal [..., t] gives [..., frame_length, frames], one along axis 0 [frames, frame_length,
    ...]. Raises ValueError for another axis, and for frames that do not fit.
    """
    attrs = {
        "frame_length": arguments.integer(frame_length, "frame_length", "frame"),
        "hop_length": arguments.integer(hop_length, "hop_length", "frame"),
        "axis": arguments.integer(axis, "axis", "frame"),
    }
    x = arguments.variable(x, "x", "frame")
    if x.shape and x.shape[0 if attrs["axis"] == 0 else -1] < 0:
        return _frames_of_open(x, attrs["frame_length"], attrs["hop_length"], attrs["axis"], name)
    return emit("frame", {"X": x}, attrs, name=name)


def _frames_of_open(x: Variable, length: int, hop: int, axis: int, name: str | None) -> Variable:
    """Cut a signal whose length only the run knows into frames."""
    if axis not in (0, -1) or hop < 1 or length < 1:
        raise ValueError(
            f"frame(): 'axis' should be 0 or -1, 'frame_length' and 'hop_length' above 0, found "
            f"{axis}, {length} and {hop}"
        )
    count = 1 + (size_of(x, axis) - length) // hop
    rank = len(x.shape)
    found = gather(x, _places(count, length, hop), axis % rank)
    if axis == 0:
        return reshape(found, [count, length, *_sizes(x)[1:]], name)
    parts = reshape(found, [*_sizes(x)[:-1], count, length])
    return transpose(parts, [*range(rank - 1), rank, rank - 1], name)


def _sizes(x: Variable) -> list[Any]:
    return [size_of(x, axis) for axis in range(len(x.shape))]


def overlap_add(x: Variable, hop_length: int, axis: int = -1, name: str | None = None) -> Variable:
    """Add frames at the places from which `frame` takes them (paddle.signal.overlap_add).

    Frames are [..., frame_length, frames], along axis 0 [frames, frame_length, ...]. Raises
    ValueError for another axis.
    """
    attrs = {
        "hop_length": arguments.integer(hop_length, "hop_length", "overlap_add"),
        "axis": arguments.integer(axis, "axis", "overlap_add"),
    }
    x = arguments.variable(x, "x", "overlap_add")
    if min(x.shape[:2] if attrs["axis"] == 0 else x.shape[-2:], default=0) < 0:
        return _sum_of_open(x, attrs["hop_length"], attrs["axis"], name)
    return emit("overlap_add", {"X": x}, attrs, name=name)


def _sum_of_open(x: Variable, hop: int, axis: int, name: str | None) -> Variable:
    """Add frames whose number or length only the run knows."""
    rank = len(x.shape)
    if axis not in (0, -1) or hop < 1 or rank < 2:
        raise ValueError(
            f"overlap_add(): 'axis' should be 0 or -1, 'hop_length' above 0, and x have two axes "
            f"at least; found {axis}, {hop} and {list(x.shape)}"
        )
    parts = x if axis == 0 else transpose(x, [*range(rank - 2), rank - 1, rank - 2])
    at = 0 if axis == 0 else rank - 2
    sizes = _sizes(parts)
    before, (count, length), after = sizes[:at], sizes[at : at + 2], sizes[at + 2 :]
    row = reshape(parts, [*before, count * length, *after])
    zeros = full([*before, (count - 1) * hop + length, *after], 0, x.dtype)
    return index_add(zeros, _places(count, length, hop), at, row, name)


def stft(
    x: Variable,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Variable | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
    name: str | None = None,
) -> Variable:
    """Compute the spectra [..., frequencies, frames] of windows along a signal [t] or [b, t].

    Windows of n_fft elements begin every `hop_length`, n_fft // 4 by default; with `center` their
    middles do, and the signal is padded. Real signals give n_fft // 2 + 1 frequencies, or all when
    not `onesided`. Raises ValueError for arguments that do not fit. Paddle page:
    paddle.signal.stft.
    """
    function = "stft"
    rank = len(arguments.variable(x, "x", function).shape)
    if rank not in (1, 2):
        raise ValueError(f"{function}(): 'x' should be [t] or [b, t], found {list(x.shape)}")
    size = size_of(x, -1)
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop < 1 or n_fft < 1 or _is_below(size, n_fft):
        raise ValueError(
            f"{function}(): 'n_fft' should be in (0, {x.shape[-1]}] and 'hop_length' above 0, "
            f"found {n_fft} and {hop}"
        )
    is_complex = x.dtype in ("complex64", "complex128")
    if is_complex and onesided:
        raise ValueError(f"{function}(): 'onesided' should be False for complex signals")
    own = {"complex64": "float32", "complex128": "float64"}.get(x.dtype, x.dtype)
    frame, _ = _window(function, window, n_fft, win_length, own)
    rows = unsqueeze(x, [0]) if rank == 1 else x
    if center:
        half = n_fft // 2
        mirrored = arguments.choice(pad_mode, "pad_mode", function, _PADS) == "reflect"
        rows = _mirror_ends(rows, half) if mirrored else pad(rows, [0, 0, half, half])
        size += 2 * half
    count = 1 + (size - n_fft) // hop
    frames = reshape(gather(rows, _places(count, n_fft, hop), 1), [0, count, n_fft])
    frames = multiply(frames, cast(frame, frames.dtype))
    transform = rfft if onesided else fft
    spectra = transform(frames, norm="ortho" if normalized else "backward", name=name)
    spectra = transpose(spectra, [0, 2, 1])
    return squeeze(spectra, [0]) if rank == 1 else spectra


def istft(
    x: Variable,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Variable | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
    return_complex: bool = False,
    name: str | None = None,
) -> Variable:
    """Invert `stft`: map spectra [..., frequencies, frames] to a signal [t] or [b, t].

    Overlapping windows are added and divided by the sum of their squares. `length` cuts the result,
    which is complex with `return_complex` (then not `onesided`). Raises ValueError for arguments
    that do not fit. Paddle page: paddle.signal.istft.
    """
    function = "istft"
    rank = len(arguments.variable(x, "x", function).shape)
    if rank not in (2, 3) or x.dtype not in ("complex64", "complex128"):
        raise ValueError(
            f"{function}(): 'x' should be complex, [f, n] or [b, f, n]; found {x.dtype} "
            f"{list(x.shape)}"
        )
    count = size_of(x, -1)
    expected = n_fft // 2 + 1 if onesided else n_fft
    if x.shape[-2] != expected:
        raise ValueError(f"{function}(): {expected} frequencies are expected, found {x.shape[-2]}")
    if return_complex and onesided:
        raise ValueError(f"{function}(): 'onesided' should be False for a complex result")
    hop = n_fft // 4 if hop_length is None else hop_length
    own = "float32" if x.dtype == "complex64" else "float64"
    frame, wide = _window(function, window, n_fft, win_length, own)
    if not 0 < hop <= wide:
        raise ValueError(f"{function}(): 'hop_length' should be in (0, {wide}], found {hop}")
    spectra = transpose(unsqueeze(x, [0]) if rank == 2 else x, [0, 2, 1])
    norm = "ortho" if normalized else "backward"
    if return_complex:
        parts = ifft(spectra, norm=norm)
    else:
        half = slice_(spectra, [2], [0], [n_fft // 2 + 1])
        # as in Paddle, an odd n_fft loses its last element
        parts = irfft(half, norm=norm)
    total = hop * (count - 1) + n_fft
    places = _places(count, n_fft, hop)
    parts = reshape(multiply(parts, cast(frame, parts.dtype)), [0, count * n_fft])
    across = transpose(parts, [1, 0])
    zeros = multiply(slice_(across, [0], [0], [1]), full([], 0, across.dtype))
    signal = transpose(index_add(tile(zeros, [total, 1]), places, 0, across), [1, 0])
    squares = tile(multiply(frame, frame), [count])
    weights = index_add(full([total], 0, squares.dtype), places, 0, squares)
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    weights = cast(slice_(weights, [0], [start], [end]), signal.dtype)
    signal = divide(slice_(signal, [1], [start], [end]), weights)
    return squeeze(signal, [0]) if rank == 2 else signal


publish(globals(), __name__)
