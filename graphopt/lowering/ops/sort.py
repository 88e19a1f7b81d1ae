"""Putting elements in order, finding and counting them, in JAX."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.ops.sort import Argsort, Histogram, Kthvalue, Searchsorted
from graphopt.ir.types import normalize_axis
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(Argsort)
def argsort(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    order = jnp.argsort(x, axis, stable=True, descending=descending)
    return jnp.take_along_axis(x, order, axis), order.astype(np.int64)


@lowers(Kthvalue)
def kthvalue(x: Array, k: int, axis: int, keepdim: bool) -> tuple[Array, Array]:
    axis = normalize_axis(axis, x.ndim)
    values, order = (
        lax.index_in_dim(sorted_, k - 1, axis, keepdim) for sorted_ in argsort(x, axis, False)
    )
    return values, order


@lowers(Searchsorted)
def searchsorted(sequence: Array, values: Array, out_int32: bool, right: bool) -> Array:
    def search(row: Array, wanted: Array) -> Array:
        return jnp.searchsorted(row, wanted, side="right" if right else "left")

    if sequence.ndim == 1:
        found = search(sequence, values)
    else:
        batch = jnp.broadcast_shapes(sequence.shape[:-1], values.shape[:-1])
        rows = [jnp.broadcast_to(a, (*batch, a.shape[-1])) for a in (sequence, values)]
        flat = [a.reshape(-1, a.shape[-1]) for a in rows]
        found = jax.vmap(search)(*flat).reshape(*batch, values.shape[-1])
    return found.astype(np.int32 if out_int32 else np.int64)


@lowers(Histogram)
def histogram(x: Array, bins: int, min: float, max: float) -> Array:
    x = wide(x.reshape(x.size))
    x = x.astype(np.float64) if jnp.issubdtype(x.dtype, jnp.integer) else x
    low, high = jnp.asarray(min, x.dtype), jnp.asarray(max, x.dtype)
    if min == max == 0 and x.size:
        low, high = jnp.min(x), jnp.max(x)
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    at = jnp.floor((x - low) * bins / (high - low)).astype(np.int32)
    inside = (x >= low) & (x <= high)
    counts = jnp.zeros(bins, np.int64)
    return counts.at[jnp.clip(at, 0, bins - 1)].add(inside.astype(np.int64))
