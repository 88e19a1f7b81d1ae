"""Pools that also say where the maxima are, and their inverses, in JAX."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.conv import explicit_pads
from graphopt.ir.dialect.ops.pool_index import (
    MaxPool2dWithIndex,
    MaxPool3dWithIndex,
    Unpool,
    Unpool3d,
)
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.conv import Windows, adaptive_windows, sliding
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]


@lowers(MaxPool2dWithIndex, MaxPool3dWithIndex)
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
    return largest(x, windows)


def largest(x: Array, windows: Sequence[Windows]) -> tuple[Array, Array]:
    """The maximum of each window, of equal ones the first, and its place."""
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
    places, inside = places.reshape(*out, -1), np.broadcast_to(inside, places.shape)
    flat = x.reshape(*x.shape[:2], -1)
    seen = jnp.take(lax.stop_gradient(flat), places, axis=2)
    lowest = np.asarray(-np.inf, x.dtype)
    first = lax.argmax(jnp.where(inside.reshape(places.shape), seen, lowest), 2 + rank, np.int32)
    chosen = jnp.take_along_axis(places[None, None], first[..., None], -1)[..., 0]
    values = jnp.take_along_axis(flat, chosen.reshape(*x.shape[:2], -1), 2)
    return values.reshape(first.shape), chosen


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _placed(x: Array, indices: Array, size: int) -> Array:
    return _target(x, indices, size).set(x)


def _target(x: Array, indices: Array, size: int) -> Any:
    rows, channels = np.arange(x.shape[0])[:, None, None], np.arange(x.shape[1])[:, None]
    return jnp.zeros((*x.shape[:2], size), x.dtype).at[rows, channels, indices]


@_placed.defjvp
def _placed_jvp(
    size: int, primals: tuple[Array, Array], tangents: tuple[Array, Any]
) -> tuple[Array, Array]:
    # of elements for one place the last wins, but as in Paddle all get its gradient
    change = tangents[0]
    return _placed(*primals, size), _target(change, primals[1], size).add(change)


@lowers(Unpool, Unpool3d)
def unpool(x: Array, indices: Array, output_size: Ints) -> Array:
    n, c = x.shape[:2]
    size = int(np.prod(output_size))
    filled = _placed(x.reshape(n, c, -1), indices.reshape(n, c, -1), size)
    return filled.reshape(n, c, *output_size)
