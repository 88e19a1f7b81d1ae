"""Reading and writing elements at given positions in JAX.

A position that is out of range reads nan and writes nothing, where Paddle raises.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops import scatter as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.lowering.ops.base import Array, is_floating, wide
from graphopt.lowering.registry import lowers


def _coordinates(index: Array) -> tuple[Any, ...]:
    """Split the last axis of an index tensor into one array per axis of the indexed tensor."""
    return tuple(index[..., i] for i in range(index.shape[-1]))


@lowers(ops.GatherNd)
def gather_nd(x: Array, index: Array) -> Array:
    if index.shape[-1] == 0:
        return jnp.broadcast_to(x, (*index.shape[:-1], *x.shape))
    return jnp.asarray(x).at[_coordinates(index)].get(mode="fill")


@lowers(ops.ScatterNdAdd)
def scatter_nd_add(x: Array, index: Array, updates: Array) -> Array:
    if index.shape[-1] == 0:
        return (wide(x) + wide(updates).reshape(-1, *x.shape).sum(0)).astype(x.dtype)
    # an element may get many addends, so half types are summed wide and rounded once
    return wide(jnp.asarray(x)).at[_coordinates(index)].add(wide(updates)).astype(x.dtype)


@jax.custom_jvp
def _overwritten(x: Array, rows: Array, updates: Array) -> Array:
    return x.at[rows].set(updates)


@_overwritten.defjvp
def _overwritten_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    # if several updates share a row, the last one wins; as in Paddle, all get its gradient
    (x, rows, updates), (dx, _, change) = primals, tangents
    written = jnp.zeros((len(x), *(1,) * (x.ndim - 1)), bool).at[rows].set(True)
    kept = jnp.where(written, jnp.zeros((), dx.dtype), dx)
    return _overwritten(x, rows, updates), kept.at[rows].add(change)


@lowers(ops.Scatter)
def scatter(x: Array, index: Array, updates: Array, overwrite: bool) -> Array:
    rows = index.reshape(index.shape[:1])
    if overwrite:
        return _overwritten(jnp.asarray(x), rows, updates)
    return jnp.asarray(x).at[rows].set(jnp.zeros((), x.dtype)).at[rows].add(updates)


def _along_axis(x: Array, index: Array, axis: int) -> tuple[Any, ...]:
    """Index x along an axis by `index`, which broadcasts along the other axes.

    An index that has size 1 along all other axes selects whole rows, which XLA moves as such.
    """
    axis = normalize_axis(axis, x.ndim)
    if all(size == 1 for at, size in enumerate(index.shape) if at != axis):
        return *[slice(None)] * axis, index.reshape(-1)
    grid: list[Any] = list(jnp.ogrid[tuple(slice(size) for size in x.shape)])
    grid[axis] = index
    return tuple(grid)


@lowers(ops.TakeAlongAxis)
def take_along_axis(x: Array, index: Array, axis: int) -> Array:
    return jnp.asarray(x).at[_along_axis(x, index, axis)].get(mode="fill")


@lowers(ops.PutAlongAxis)
def put_along_axis(
    x: Array, index: Array, value: Array, axis: int, reduce: str, include_self: bool
) -> Array:
    x, axis = jnp.asarray(x), normalize_axis(axis, x.ndim)
    places = _along_axis(x, index, axis)
    if reduce == "assign":
        return x.at[places].set(value)
    # the number of values for each element, and the elements that take part themselves
    count = _count(x, index, axis)
    kept = (count == 0) | include_self
    if reduce in ("add", "mean"):
        total = jnp.where(kept, x, jnp.zeros((), x.dtype)).at[places].add(value)
        if reduce == "add":
            return total
        number = jnp.maximum(count + kept.astype(np.int32), 1).astype(x.dtype)
        return total / number if is_floating(x) else total // number
    kind = reduce if reduce.startswith("a") else "mul"
    row = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    value = jnp.broadcast_to(value, jnp.broadcast_shapes(index.shape, row))
    return _combine(x, value, kept, places, kind)


def _count(x: Array, index: Array, axis: int) -> Array:
    """Count the values written to each element of x; axes with equal counts have size 1."""
    sizes = [size if at == axis or index.shape[at] > 1 else 1 for at, size in enumerate(x.shape)]
    none = jnp.zeros(sizes, np.int32)
    return none.at[_along_axis(none, index, axis)].add(1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def _combine(x: Array, value: Array, kept: Array, places: tuple[Any, ...], kind: str) -> Array:
    if kind == "mul":
        return jnp.where(kept, x, jnp.ones((), x.dtype)).at[places].multiply(value)
    info = jnp.iinfo(x.dtype) if not is_floating(x) else None
    highest, lowest = (info.max, info.min) if info else (np.inf, -np.inf)
    worst = np.asarray(highest if kind == "amin" else lowest, x.dtype)
    target = jnp.where(kept, x, worst).at[places]
    return target.min(value) if kind == "amin" else target.max(value)


@_combine.defjvp
def _combined_jvp(
    kind: str, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    x, value, kept, places = primals
    out = _combine(x, value, kept, places, kind)
    zero = jnp.zeros((), x.dtype)
    if kind == "mul":
        # by division, as in Paddle: NaN where a factor is 0
        mine, theirs = jnp.where(kept, out / x, zero), out[places] / value
    else:
        # equal values share the gradient
        mine = (kept & (x == out)).astype(x.dtype)
        theirs = (value == out[places]).astype(x.dtype)
        number = jnp.maximum(mine.at[places].add(theirs), 1)
        mine, theirs = mine / number, theirs / number[places]
    return out, (mine * tangents[0]).at[places].add(theirs * tangents[1])


@lowers(ops.IndexSample)
def index_sample(x: Array, index: Array) -> Array:
    return take_along_axis(x, index, 1)
