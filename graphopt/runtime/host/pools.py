"""Pools over windows in NumPy, computed along one axis after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from graphopt.reference.ops.conv import Ints, channels_back, channels_first
from graphopt.reference.ops.pool import NONE, Window, windows_of

Array: TypeAlias = "np.ndarray[Any, Any]"


def pool2d(
    x: Array,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> Array:
    """Compute pd.pool2d."""
    x = channels_first(x, data_format)
    windows = windows_of(
        *(x.shape[2:], kernel_size, strides, paddings, padding_algorithm),
        *(global_pooling, adaptive, ceil_mode, exclusive),
    )
    combine = np.maximum if pooling_type == "max" else np.add
    out = x
    for axis, along in enumerate(windows, 2):
        out = np.moveaxis(_along(np.moveaxis(out, axis, 0), along, combine), 0, axis)
    if pooling_type != "max":
        down, right = (np.array([n for *_, n in along], x.dtype) for along in windows)
        out = out / np.outer(down, right)
    return channels_back(out, data_format)


def _along(x: Array, windows: Sequence[Window], combine: np.ufunc) -> Array:
    """Reduce each window along the first axis; the maximum of an empty window is NONE."""
    starts = np.array([start for start, _, _ in windows])
    sizes = np.array([end - start for start, end, _ in windows])
    none = NONE if combine is np.maximum else 0
    if len(windows) <= sizes.max():
        out = np.full((len(windows), *x.shape[1:]), none, x.dtype)
        for at, (start, end, _) in enumerate(windows):
            if start < end:
                out[at] = combine.reduce(x[start:end], axis=0)
        return out
    out = np.where(np.reshape(sizes > 0, (-1, *(1,) * (x.ndim - 1))), _take_rows(x, starts), none)
    out = out.astype(x.dtype, copy=False)
    for step in range(1, sizes.max()):
        inside = sizes > step
        if inside.all():
            combine(out, _take_rows(x, starts + step), out=out)
        else:
            out[inside] = combine(out[inside], x[starts[inside] + step])
    return out


def _take_rows(x: Array, at: Array) -> Array:
    """Take rows by index, as a view where the indices are equally spaced."""
    at = np.minimum(at, len(x) - 1)  # an empty window may start after the last row
    steps = np.diff(at)
    if len(steps) and steps[0] > 0 and (steps == steps[0]).all():
        return x[at[0] : at[-1] + 1 : steps[0]]
    return x[at]
