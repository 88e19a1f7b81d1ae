"""Pooling over windows, the places of maxima, and images with these at their places."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from graphopt.ir.dialect.ops import pool as ops
from graphopt.reference.ops.conv import Ints, channels_back, channels_first, pads_of
from graphopt.reference.ops.scatter import assign_rows
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array, value_of

Window = tuple[int, int, int]
"""The start and end of a window along an axis, and the divisor of an average."""
NONE = float(np.finfo(np.float32).min)
"""The maximum of a window outside of the image, whatever the dtype."""


def _windows(
    size: int, own: int, stride: int, pad: tuple[int, int], ceil_mode: bool, exclusive: bool
) -> list[Window]:
    """Compute the windows along a dimension."""
    room = size + sum(pad) - own
    number = (math.ceil(room / stride) if ceil_mode else room // stride) + 1
    found: list[Window] = []
    for at in range(number):
        start = at * stride - pad[0]
        # Paddle lets windows end as far outside as the padding before the axis
        end = min(start + own, size + pad[0])
        first, last = max(start, 0), max(min(end, size), 0)  # empty in the padding
        found.append((first, last, last - first if exclusive else end - start))
    return found


def _equal_windows(sizes: Ints, wanted: Ints) -> list[list[Window]]:
    """Divide each dimension into this many windows; -1 keeps a dimension."""
    numbers = [size if want < 0 else want for size, want in zip(sizes, wanted, strict=True)]
    return [
        [
            (i * size // n, -(-(i + 1) * size // n), -(-(i + 1) * size // n) - i * size // n)
            for i in range(n)
        ]
        for size, n in zip(sizes, numbers, strict=True)
    ]


def windows_of(
    sizes: Ints,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool = True,
) -> list[list[Window]]:
    """Compute the windows of a pool along each dimension of an image."""
    if global_pooling or adaptive:
        return _equal_windows(sizes, [1] * len(sizes) if global_pooling else kernel_size)
    pads = pads_of(paddings, padding_algorithm, sizes, kernel_size, strides)
    return [
        _windows(*each, ceil_mode, exclusive)
        for each in zip(sizes, kernel_size, strides, pads, strict=True)
    ]


@rule(ops.Pool2d, ops.Pool3d)
def pool(
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
    x = channels_first(x, data_format)
    windows = windows_of(
        *(x.shape[2:], kernel_size, strides, paddings, padding_algorithm),
        *(global_pooling, adaptive, ceil_mode, exclusive),
    )
    axes = tuple(range(2, x.ndim))
    cells: list[Array] = []
    for cell in itertools.product(*windows):
        part = x[(slice(None), slice(None), *(slice(a, b) for a, b, _ in cell))]
        if pooling_type == "max":
            cells.append(np.max(part, axis=axes) if part.size else np.full(x.shape[:2], NONE))
        else:
            cells.append(np.sum(part, axis=axes) / float(math.prod(n for _, _, n in cell)))
    out = np.reshape(np.stack(cells, -1), (*x.shape[:2], *map(len, windows)))
    return channels_back(out, data_format)


@rule(ops.MaxPool2dWithIndex, ops.MaxPool3dWithIndex)
def max_pool_with_index(
    x: Array,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
) -> tuple[Array, Array]:
    sizes = x.shape[2:]
    windows = windows_of(
        *(sizes, kernel_size, strides, paddings, padding_algorithm),
        *(global_pooling, adaptive, ceil_mode),
    )
    values, counts = value_of(x), tuple(map(len, windows))
    best = np.full((*x.shape[:2], *counts), -np.inf, x.dtype)
    where = np.full(best.shape, -1)
    # one position of all windows at a time; the first of equal elements counts
    for place in itertools.product(*(range(max(n for *_, n in part)) for part in windows)):
        starts = [
            np.array([first + step for first, _, _ in part])
            for part, step in zip(windows, place, strict=True)
        ]
        ends = [np.array([end for _, end, _ in part]) for part in windows]
        grid = np.ix_(*(np.minimum(a, end - 1) for a, end in zip(starts, ends, strict=True)))
        found = values[(slice(None), slice(None), *grid)]
        rows = [a < end for a, end in zip(starts, ends, strict=True)]
        inside = np.meshgrid(*rows, indexing="ij", sparse=True)
        larger = (found > best) | (np.isnan(found) & ~np.isnan(best))  # the first NaN counts
        better = functools.reduce(np.logical_and, inside) & ((where < 0) | larger)
        best = np.where(better, found, best)
        where = np.where(better, np.ravel_multi_index(grid, sizes), where)
    flat = np.reshape(x, (*x.shape[:2], math.prod(sizes)))
    at = np.reshape(np.maximum(where, 0), (*x.shape[:2], math.prod(counts)))
    out = np.reshape(np.take_along_axis(flat, at, 2), best.shape)
    return np.where(where < 0, NONE, out), where


@rule(ops.Unpool, ops.Unpool3d)
def unpool(x: Array, indices: Array, output_size: Ints) -> Array:
    channels, places = math.prod(x.shape[:2]), math.prod(output_size)
    if not np.all((indices >= 0) & (indices < places)):
        raise Unsupported("pd.unpool", "at a place that is out of range")
    rows = np.reshape(np.arange(channels) * places, (*x.shape[:2], *(1,) * len(output_size)))
    at, none = np.reshape(rows + indices, (-1,)), np.zeros(channels * places, x.dtype)
    out = assign_rows(none, at, np.reshape(x, (-1,)))
    return np.reshape(out, (*x.shape[:2], *output_size))
