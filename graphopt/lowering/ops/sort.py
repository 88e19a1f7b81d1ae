"""Sorting, searching and counting elements, in JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import sort as ops
from graphopt.ir.dialect.types import normalize_axes, normalize_axis
from graphopt.lowering.kernels import ordering
from graphopt.lowering.ops.base import Array, is_floating, quotient, wide
from graphopt.lowering.registry import lowers


@lowers(ops.Argsort)
def argsort(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    order = ordering.argsort(x, axis, descending=descending)
    return jnp.take_along_axis(x, order, axis), order


@lowers(ops.Kthvalue)
def kthvalue(x: Array, k: int, axis: int, keepdim: bool) -> tuple[Array, Array]:
    axis = normalize_axis(axis, x.ndim)
    place = lax.slice_in_dim(ordering.first_places(x, k, axis), k - 1, k, axis=axis)
    value = jnp.take_along_axis(x, place, axis)
    return (value, place) if keepdim else (value.squeeze(axis), place.squeeze(axis))


@lowers(ops.Mode)
def mode(x: Array, axis: int, keepdim: bool) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    axis = normalize_axis(axis, x.ndim)
    rows = jnp.moveaxis(x, axis, -1)
    order = ordering.argsort(rows)
    values = jnp.take_along_axis(lax.stop_gradient(rows), order, -1)
    at = lax.broadcasted_iota(np.int64, values.shape, values.ndim - 1)
    new = jnp.concatenate(
        [values[..., :1] == values[..., :1], values[..., 1:] != values[..., :-1]], -1
    )
    first = lax.cummax(jnp.where(new, at, 0), values.ndim - 1)
    # the longest run ends at the largest distance from its start; argmax returns the first such run
    last = ordering.index_of_largest(at - first, values.ndim - 1, np.int64)[..., None]
    where = jnp.take_along_axis(order, last, -1)
    out = jnp.take_along_axis(rows, where, -1)
    if keepdim:
        return jnp.moveaxis(out, -1, axis), jnp.moveaxis(where, -1, axis)
    return out[..., 0], where[..., 0]


@lowers(ops.Nanmedian)
def nanmedian(x: Array, axis: tuple[int, ...], keepdim: bool, mode: str) -> Array:
    axes = normalize_axes(axis, x.ndim) if axis else tuple(range(x.ndim))
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    out_shape = shape if keepdim else tuple(x.shape[i] for i in kept)
    rows = lax.collapse(x.transpose(*kept, *axes), len(kept))
    if not rows.shape[-1]:
        return jnp.full(out_shape, jnp.nan if is_floating(x) else 0, x.dtype)
    rows = ordering.sort(rows)  # NaN sorts last
    count = jnp.sum(~jnp.isnan(rows), -1, keepdims=True) if is_floating(x) else rows.shape[-1]
    low = jnp.maximum(jnp.asarray(count - 1, np.int64), 0) // 2
    high = jnp.asarray(count, np.int64) // 2
    bounds = [
        jnp.take_along_axis(rows, jnp.broadcast_to(at, (*rows.shape[:-1], 1)), -1)
        for at in ((low, high) if mode == "avg" else (low, low))
    ]
    if is_floating(x):
        middle = ((wide(bounds[0]) + wide(bounds[1])) / 2).astype(x.dtype)
        middle = jnp.where(count > 0, middle, jnp.asarray(jnp.nan, x.dtype))
    else:
        middle = ((bounds[0].astype(np.float64) + bounds[1]) / 2).astype(x.dtype)
    return middle.reshape(out_shape)


def _compared_in(*dtypes: Any) -> Any:
    """Return the dtype in which C++ compares such numbers: the wider float, else integer."""
    floats = [dtype for dtype in dtypes if jnp.issubdtype(dtype, np.floating)]
    return max(floats or dtypes, key=lambda dtype: dtype.itemsize)


@lowers(ops.Searchsorted)
def searchsorted(sequence: Array, values: Array, out_int32: bool, right: bool) -> Array:
    if sequence.dtype != values.dtype:
        common = _compared_in(sequence.dtype, values.dtype)
        sequence, values = sequence.astype(common), values.astype(common)

    def search(row: Array, wanted: Array) -> Array:
        return jnp.searchsorted(row, wanted, side="right" if right else "left")

    if sequence.ndim == 1:
        found = search(sequence, values)
    else:
        batch = jnp.broadcast_shapes(sequence.shape[:-1], values.shape[:-1])
        rows = [jnp.broadcast_to(a, (*batch, a.shape[-1])) for a in (sequence, values)]
        flat = [lax.collapse(a, 0, -1) for a in rows]
        found = jax.vmap(search)(*flat).reshape(*batch, values.shape[-1])
    return found.astype(np.int32 if out_int32 else np.int64)


@lowers(ops.Histogram)
def histogram(
    x: Array, bins: int, min: float, max: float, density: bool, weight: Array | None = None
) -> Array:
    x = wide(x.reshape(x.size))
    x = x.astype(np.float64) if jnp.issubdtype(x.dtype, jnp.integer) else x
    low, high = jnp.asarray(min, x.dtype), jnp.asarray(max, x.dtype)
    if min == max and x.size:
        low, high = jnp.min(x), jnp.max(x)
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    at = jnp.floor(quotient((x - low) * bins, high - low)).astype(np.int32)
    amounts = ((x >= low) & (x <= high)).astype(np.int64)
    if weight is not None:
        amounts = jnp.where(amounts, weight.reshape(x.size).astype(np.float32), 0)
    found = jnp.zeros(bins, amounts.dtype).at[jnp.clip(at, 0, bins - 1)].add(amounts)
    if not density or not x.size:
        return found.astype(np.float32) if density else found
    width = ((high - low) / bins).astype(np.float32)
    return found.astype(np.float32) / jnp.sum(found).astype(np.float32) / width


@lowers(ops.Topk)
def topk(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    def flip(values: Array) -> Array:
        # `~` reverses the order of integers as `-` does for floats, without overflow
        return values if largest else -values if is_floating(values) else ~values

    axis = normalize_axis(axis, x.ndim)
    if k * ordering.FEW > x.shape[axis]:
        order = ordering.argsort(x, axis, descending=largest)
        order = lax.slice_in_dim(order, 0, k, axis=axis)
        return jnp.take_along_axis(x, order, axis), order
    # the derivative of `lax.top_k` would search for the elements again
    indices = lax.top_k(lax.stop_gradient(flip(x)), k, axis=axis)[1].astype(np.int64)
    return jnp.take_along_axis(x, indices, axis), indices
