"""Pools over two or three spatial dimensions, and their inverses, in JAX."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import pool as ops
from graphopt.ir.dialect.ops.conv import (
    explicit_pads,
    is_channels_last,
    spatial_sizes,
    window_output,
)
from graphopt.lowering.kernels.pooling import (
    ONE,
    Slides,
    largest,
    largest_with_places,
    total,
    total_of_parts,
    total_of_tiles,
)
from graphopt.lowering.ops.base import Array, is_floating, quotient, wide
from graphopt.lowering.registry import lowers

Bounds = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PoolWindows:
    """The pooling windows along one dimension.

    `starts` and `stops` bound the elements of each window; `counts` are the divisors of averages.
    When all windows are alike, `slide` is (size, stride, (padding before, after)).
    """

    starts: Bounds
    stops: Bounds
    counts: Bounds
    slide: tuple[int, int, tuple[int, int]] | None


def sliding(
    size: int, window: int, stride: int, pads: tuple[int, int], ceil_mode: bool, exclusive: bool
) -> PoolWindows:
    """Build windows of one size; `exclusive` averages leave the padding out of the count."""
    number = window_output(size, window, stride, pads, ceil_mode, may_pass_end=True)
    first = np.arange(number) * stride - pads[0]
    starts, stops = np.clip(first, 0, size), np.clip(first + window, 0, size)
    # Paddle counts as much padding after an axis as before it, whatever `pads[1]` is
    padded = np.minimum(first + window, size + pads[0]) - first
    counts = stops - starts if exclusive else padded
    after = max(int(first[-1]) + window - size, pads[1])
    return PoolWindows(starts, stops, counts, (window, stride, (pads[0], after)))


def adaptive_windows(size: int, number: int) -> PoolWindows:
    """Build `number` windows that cover a dimension; they overlap when it does not divide."""
    index = np.arange(number)
    starts, stops = index * size // number, -(-(index + 1) * size // number)
    each = size // number
    slide = (each, each, (0, 0)) if size and size % number == 0 else None
    return PoolWindows(starts, stops, stops - starts, slide)


@lowers(ops.Pool2d, ops.Pool3d)
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
    algorithm: str,
) -> Array:
    sizes, rank = spatial_sizes(x.shape, data_format), len(kernel_size)
    first = 1 if is_channels_last(data_format) else 2
    if global_pooling or adaptive:
        numbers = (1,) * rank if global_pooling else kernel_size
        # -1 keeps an axis
        wanted = [(size, n if n >= 0 else size) for size, n in zip(sizes, numbers, strict=True)]
        windows = [adaptive_windows(*pair) for pair in wanted]
    else:
        ones = (1,) * rank
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel_size, strides, ones)
        shapes = zip(sizes, kernel_size, strides, pads, strict=True)
        windows = [sliding(*shape, ceil_mode, exclusive) for shape in shapes]
    slides = _slides(windows)
    algorithm = algorithm if slides else ""
    whole = (*[ONE] * first, *slides, *[ONE] * (x.ndim - first - rank))
    if pooling_type == "max":
        if algorithm == "shifts":
            most: Any = largest(x, whole)
        else:
            most = reduce_windows(x, windows, first, lax.max, _lowest(x))
        empty = empty_windows(windows)
        channels = (1,) * (x.ndim - first - rank)
        return (
            jnp.where(empty.reshape(*empty.shape, *channels), none(x), most)
            if empty.any()
            else most
        )
    if algorithm == "shifts":
        sums = total(wide(x), whole)
    elif algorithm == "tiles":
        sums = total_of_tiles(wide(x), whole)
    else:
        sums = reduce_windows(wide(x), windows, first, lax.add, 0)
    outer = functools.reduce(np.multiply.outer, [window.counts for window in windows])
    counts = outer.astype(sums.dtype)
    return quotient(sums, counts[..., None] if first == 1 else counts).astype(x.dtype)


def _slides(windows: Sequence[PoolWindows]) -> Slides:
    """Return the slide of the windows along each dimension; () where some differ."""
    found = tuple(window.slide for window in windows if window.slide is not None)
    return found if len(found) == len(windows) else ()


def empty_windows(windows: Sequence[PoolWindows]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """True for each window that is beyond the image, as the last one of `ceil_mode` may be."""
    return functools.reduce(np.logical_or.outer, [w.starts >= w.stops for w in windows])


def none(x: Array) -> np.ndarray[Any, Any]:
    """Return Paddle's maximum of no elements: the least float32, whatever the dtype."""
    with np.errstate(over="ignore"):  # half types overflow to minus infinity
        return np.asarray(np.finfo(np.float32).min).astype(x.dtype)


def _lowest(x: Array) -> float:
    return -np.inf if is_floating(x) else int(jnp.iinfo(x.dtype).min)


def reduce_windows(
    x: Array, windows: Sequence[PoolWindows], first: int, combine: Any, neutral: float
) -> Array:
    """Combine the elements of each window of the dimensions of x from `first` on."""
    start = np.asarray(neutral, x.dtype)
    shape, strides, pads = [1] * x.ndim, [1] * x.ndim, [(0, 0)] * x.ndim
    uneven = any(window.slide is None for window in windows)
    axes = [*enumerate(windows, start=first)]
    # For maxima, start with the last axis: the first of equal maxima must get the gradient. For
    # sums, start with the first axis, to sum whole rows.
    for axis, window in reversed(axes) if combine is lax.max else axes:
        if window.slide is None or (uneven and combine is lax.max):
            x = _reduce_uneven(x, window, axis, combine, start)
        else:
            shape[axis], strides[axis], pads[axis] = window.slide
    return lax.reduce_window(x, start, combine, shape, strides, pads)


_MOST_SLICES, _MOST_WINDOWS = 256, 16
"""A sum over a longer axis, or for more windows along it, gathers its elements, because slices take
long to compile: 0.4 s for 15 windows of 224 elements, and 14 s for a pool of 224 x 224 elements to
100 x 100, with its derivative."""


def _reduce_uneven(x: Array, windows: PoolWindows, axis: int, combine: Any, start: Any) -> Array:
    """Combine the elements of each window along one dimension; window lengths differ."""
    few = 0 < x.shape[axis] <= _MOST_SLICES and len(windows.starts) <= _MOST_WINDOWS
    if combine is lax.add and few:
        parts = zip(windows.starts.tolist(), windows.stops.tolist(), strict=True)
        return total_of_parts(x, axis, tuple(parts))
    longest = int(max(windows.stops - windows.starts))
    positions = windows.starts[:, None] + np.arange(longest)
    inside = positions < windows.stops[:, None]
    gathered = jnp.take(x, np.where(inside, positions, 0), axis)
    mask = np.expand_dims(inside, [i for i in range(gathered.ndim) if i not in (axis, axis + 1)])
    masked = jnp.where(mask, gathered, start)
    if combine is not lax.max:
        return lax.reduce(masked, start, combine, (axis + 1,))
    largest_at = jnp.argmax(lax.stop_gradient(masked), axis + 1, keepdims=True)
    return jnp.take_along_axis(masked, largest_at, axis + 1).squeeze(axis + 1)


Ints = tuple[int, ...]


@lowers(ops.MaxPool2dWithIndex, ops.MaxPool3dWithIndex)
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
    sizes, rank = x.shape[2:], len(kernel_size)
    if global_pooling or adaptive:
        numbers = (1,) * rank if global_pooling else kernel_size
        windows = [adaptive_windows(*pair) for pair in zip(sizes, numbers, strict=True)]
    else:
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel_size, strides, (1,) * rank)
        shapes = zip(sizes, kernel_size, strides, pads, strict=True)
        windows = [sliding(*shape, ceil_mode, True) for shape in shapes]
    return largest_with_index(x, windows)


def largest_with_index(x: Array, windows: Sequence[PoolWindows]) -> tuple[Array, Array]:
    """Compute the maximum of each window and its index, the first of equal maxima."""
    slides = _slides(windows)
    values, chosen = largest_with_places(x, slides) if slides else _gather_largest(x, windows)
    empty = empty_windows(windows)
    if not empty.any():
        return values, chosen
    return jnp.where(empty, none(x), values), jnp.where(empty, -1, chosen)


def _gather_largest(x: Array, windows: Sequence[PoolWindows]) -> tuple[Array, Array]:
    """Compute `largest_with_index` of windows of different lengths, padded to the longest."""
    sizes, rank = x.shape[2:], len(windows)
    places, inside = np.zeros((1,) * (2 * rank), np.int32), np.ones((1,) * (2 * rank), bool)
    for axis, window in enumerate(windows):
        longest = int(max(window.stops - window.starts, default=1))
        at = window.starts[:, None] + np.arange(longest)
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = at.shape
        step = int(np.prod(sizes[axis + 1 :], dtype=np.int64))
        places = places + (np.minimum(at, sizes[axis] - 1) * step).reshape(shape).astype(np.int32)
        inside = inside & (at < window.stops[:, None]).reshape(shape)
    out = places.shape[:rank]
    inside = np.broadcast_to(inside, places.shape)
    places = places.reshape(*out, math.prod(places.shape[rank:]))
    flat = lax.collapse(x, 2)
    seen = jnp.take(lax.stop_gradient(flat), places, axis=2)
    lowest = np.asarray(-np.inf, x.dtype)
    first = lax.argmax(jnp.where(inside.reshape(places.shape), seen, lowest), 2 + rank, np.int32)
    chosen = jnp.take_along_axis(places[None, None], first[..., None], -1)[..., 0]
    return jnp.take_along_axis(flat, lax.collapse(chosen, 2), 2).reshape(first.shape), chosen


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _unpool(x: Array, indices: Array, size: int) -> Array:
    return _target(x, indices, size).set(x)


def _target(x: Array, indices: Array, size: int) -> Any:
    rows, channels = np.arange(x.shape[0])[:, None, None], np.arange(x.shape[1])[:, None]
    return jnp.zeros((*x.shape[:2], size), x.dtype).at[rows, channels, indices]


@_unpool.defjvp
def _placed_jvp(
    size: int, primals: tuple[Array, Array], tangents: tuple[Array, Any]
) -> tuple[Array, Array]:
    # if several elements share a place, the last one wins; as in Paddle, all get its gradient
    change = tangents[0]
    return _unpool(*primals, size), _target(change, primals[1], size).add(change)


@lowers(ops.Unpool, ops.Unpool3d)
def unpool(x: Array, indices: Array, output_size: Ints) -> Array:
    filled = _unpool(lax.collapse(x, 2), lax.collapse(indices, 2), math.prod(output_size))
    return filled.reshape(*x.shape[:2], *output_size)
