"""The order of elements, found on CPUs by sorting integers.

XLA calls a function for each comparison of floating-point numbers, and of pairs of a number and its
index. It sorts integers in a sixth of the time. So an element of up to 32 bits and its index become
one integer of 64 bits: a key that orders as the elements do, above the index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array
_PLACE = 0xFFFFFFFF
FEW = 16
"""Selecting up to 1/FEW of the elements takes less time than sorting all of them."""


def argsort(x: Array, axis: int = -1, *, descending: bool = False) -> Array:
    """Sort stably and return the indices as int64; NaN is the largest number."""
    x, axis = lax.stop_gradient(x), axis % x.ndim
    plain = partial(_plain, axis=axis, descending=descending)
    by_keys = partial(_by_keys, axis=axis, descending=descending)
    if x.dtype == np.int64:
        by_keys = partial(_by_keys_if_small, by_keys, plain)
    elif x.dtype.itemsize > 4 or x.dtype == np.uint32:
        return plain(x)
    return lax.platform_dependent(x, cpu=by_keys, default=plain)


def first_places(x: Array, count: int, axis: int = -1) -> Array:
    """Return the indices of the `count` smallest elements in order, as int64."""
    x, axis = lax.stop_gradient(x), axis % x.ndim
    if x.dtype != np.float32 or count * FEW > x.shape[axis]:
        return lax.slice_in_dim(argsort(x, axis), 0, count, axis=axis)
    # XLA keeps a heap of floats, and orders NaNs by their bits
    keys = ~_keys(x).astype(np.int32)
    as_floats = lax.bitcast_convert_type(jnp.where(keys < 0, keys ^ 0x7FFFFFFF, keys), np.float32)
    return lax.top_k(as_floats, count, axis=axis)[1].astype(np.int64)


def sort(x: Array, axis: int = -1) -> Array:
    """Sort the elements along an axis."""
    return jnp.take_along_axis(x, argsort(x, axis), axis)


def index_of_largest(x: Array, axis: int, dtype: Any) -> Array:
    """Find the index of the first maximum along an axis; x has no NaN.

    XLA goes through pairs of a number and its index one by one; a maximum and a minimum it computes
    by vector instructions.
    """
    return _first(x == jnp.max(x, axis, keepdims=True), axis).astype(dtype)


def index_of_smallest(x: Array, axis: int, dtype: Any) -> Array:
    """Find the index of the first minimum along an axis; x has no NaN."""
    return _first(x == jnp.min(x, axis, keepdims=True), axis).astype(dtype)


def _first(found: Array, axis: int) -> Array:
    places = lax.broadcasted_iota(np.int32, found.shape, axis)
    return jnp.min(jnp.where(found, places, found.shape[axis]), axis)


def _plain(x: Array, axis: int, descending: bool) -> Array:
    return jnp.argsort(x, axis, stable=True, descending=descending).astype(np.int64)


def _by_keys(x: Array, axis: int, descending: bool) -> Array:
    rows = x.swapaxes(axis, -1)  # columns would be copied one by one
    keys = _keys(rows)
    places = lax.broadcasted_iota(np.int64, rows.shape, rows.ndim - 1)
    found = lax.sort((~keys if descending else keys) << 32 | places)
    return (found & _PLACE).swapaxes(axis, -1)


def _by_keys_if_small(
    by_keys: Callable[[Array], Array], plain: Callable[[Array], Array], x: Array
) -> Array:
    """Sort 64-bit integers by keys if all fit into 32 bits, as most ids and counts do."""
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    return lax.cond(jnp.all((x >= least) & (x <= most)), by_keys, plain, x)


def _keys(x: Array) -> Array:
    """Map elements to 32-bit integers of the same order, stored as int64."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(np.float32)
        # map -0 to 0, and all NaNs to one
        x = jnp.where(x == 0, 0, jnp.where(jnp.isnan(x), jnp.nan, x))
        bits = lax.bitcast_convert_type(x, np.int32)
        x = jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return x.astype(np.int64)
