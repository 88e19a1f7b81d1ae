"""Reductions over axes, and running results along an axis, in JAX."""

from __future__ import annotations

import functools
import math
import typing
from collections.abc import Callable

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import reduce as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.ir.dtypes import DType
from graphopt.lowering.kernels.ordering import index_of_largest, index_of_smallest
from graphopt.lowering.kernels.running import cumulate, log_sums, on_cpus, running
from graphopt.lowering.ops.base import (
    Array,
    compute_wide,
    is_floating,
    quotient,
    wide,
    wide_dtype,
)
from graphopt.lowering.ops.math import abs_
from graphopt.lowering.registry import lower_each, lowers

Axes = tuple[int, ...]
Finder = Callable[..., Array]
Unchecked = typing.Any  # `Any` is an op in this module


lower_each(
    {
        ops.Max: lambda x, axis, keepdim: _reduce(x, jnp.max, axis, keepdim, shares=False),
        ops.Min: lambda x, axis, keepdim: _reduce(x, jnp.min, axis, keepdim, shares=False),
        ops.Amax: lambda x, axis, keepdim: _reduce(x, jnp.max, axis, keepdim, shares=True),
        ops.Amin: lambda x, axis, keepdim: _reduce(x, jnp.min, axis, keepdim, shares=True),
        ops.All: lambda x, axis, keepdim: jnp.all(x, axis or None, keepdims=keepdim),
        ops.Any: lambda x, axis, keepdim: jnp.any(x, axis or None, keepdims=keepdim),
        ops.Numel: lambda x: jnp.asarray(x.size, np.int64),
        ops.SquaredL2Norm: compute_wide(lambda x: jnp.sum(x * x).reshape(1)),
    }
)


@lowers(ops.Mean)
def mean(x: Array, axis: Axes, keepdim: bool) -> Array:
    axes = axis or range(x.ndim)
    total = jnp.sum(wide(x), axis or None, keepdims=keepdim)
    count = jnp.asarray(math.prod(x.shape[at] for at in axes), total.dtype)
    return quotient(total, count).astype(x.dtype)


@lowers(ops.Sum)
def sum_(x: Array, axis: Axes, keepdim: bool, dtype: DType | None) -> Array:
    total = ops.sum_dtype(DType(x.dtype.name), dtype)
    # half types are summed in float32 and rounded once
    found = jnp.sum(x, axis or None, dtype=wide_dtype(total.numpy), keepdims=keepdim)
    return found.astype(total.numpy)


def _extremes(x: Array, find: Finder, axis: Axes, shares: bool) -> Array:
    """Compute the largest or smallest elements over axes, which stay.

    With `shares` equal elements share the gradient, else each gets all of it.
    """
    return find(x, axis or None, keepdims=True)


def _find(x: Array, find: Finder, axis: Axes, shares: bool) -> tuple[Array, Array]:
    # XLA may recompute x for the comparison with other rounding, and no element would be equal
    x = lax.optimization_barrier(x)
    found = find(x, axis or None, keepdims=True)
    return found, x == found


def _gradient(find: Finder, axis: Axes, shares: bool, equal: Array, grad: Array) -> tuple[Array]:
    if shares:
        grad = grad / jnp.sum(equal, axis or None, dtype=grad.dtype, keepdims=True)
    return (jnp.where(equal, grad, jnp.zeros((), grad.dtype)),)


_outermost: Unchecked = jax.custom_vjp(_extremes, nondiff_argnums=(1, 2, 3))
_outermost.defvjp(_find, _gradient)


def _reduce(x: Array, find: Finder, axis: Axes, keepdim: bool, shares: bool) -> Array:
    found = _outermost(x, find, axis, shares)
    return found if keepdim else jnp.squeeze(found, axis or None)


@lowers(ops.Prod)
@compute_wide
def prod(x: Array, axis: Axes, keepdim: bool) -> Array:
    axes = tuple(normalize_axis(each, x.ndim) for each in axis) or tuple(range(x.ndim))
    found = _product(x, axes) if is_floating(x) else jnp.prod(x, axes, x.dtype, keepdims=True)
    return found if keepdim else found.squeeze(axes)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _product(x: Array, axes: Axes) -> Array:
    """Multiply over axes, which stay; JAX would compute the derivative by many products."""
    return jnp.prod(x, axes, dtype=x.dtype, keepdims=True)


@_product.defjvp
def _product_derivative(
    axes: Axes, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    found = jnp.sum(_of_others(x, axes) * tangent, axes, x.dtype, keepdims=True)
    return _product(x, axes), found


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _of_others(x: Array, axes: Axes) -> Array:
    """Compute for each element the product of the others over the axes."""
    is_zero = x == 0
    zeros, without = jnp.sum(is_zero, axes, keepdims=True), jnp.where(is_zero, 1, x)
    counts = jnp.where(is_zero, zeros == 1, zeros == 0)
    return jnp.where(counts, jnp.prod(without, axes, x.dtype, keepdims=True) / without, 0)


@_of_others.defjvp
def _of_others_derivative(
    axes: Axes, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    # the quick formula above has no derivative if an element is 0
    def slowly(x: Array) -> Array:
        out, back = jax.vjp(lambda x: jnp.prod(x, axes, keepdims=True), x)
        return back(jnp.ones_like(out))[0]

    return jax.jvp(slowly, primals, tangents)


@lowers(ops.Logsumexp)
@compute_wide
def logsumexp(x: Array, axis: Axes, keepdim: bool) -> Array:
    return jax.scipy.special.logsumexp(x, axis or None, keepdims=keepdim)


@lowers(ops.PNorm)
@compute_wide
def p_norm(x: Array, porder: float, axis: Axes, keepdim: bool) -> Array:
    sizes = abs_(x)
    if math.isinf(porder):
        return _reduce(sizes, jnp.max if porder > 0 else jnp.min, axis, keepdim, shares=False)
    if porder == 0:
        return jnp.sum(sizes != 0, axis or None, dtype=x.dtype, keepdims=keepdim)
    powers = sizes if porder == 1 else x * x if porder == 2 else sizes**porder
    total = jnp.sum(powers, axis or None, keepdims=keepdim)
    # the root has no derivative at 0; Paddle's is 0
    root = jnp.where(total == 0, 1, total) ** (1 / porder)
    return jnp.where(total == 0, 0, root)


@lowers(ops.ClipByNorm)
@compute_wide
def clip_by_norm(x: Array, max_norm: float) -> Array:
    norm = p_norm(x, porder=2.0, axis=(), keepdim=False)
    return x * jnp.where(norm > max_norm, max_norm / norm, 1)


@lowers(ops.ReduceAs)
@compute_wide
def reduce_as(x: Array, target: Array) -> Array:
    outer = x.ndim - target.ndim
    inner = (outer + i for i, size in enumerate(target.shape) if size == 1)
    return jnp.sum(x, axis=(*range(outer), *inner), dtype=x.dtype).reshape(target.shape)


def _without_nan(x: Array, number: float) -> Array:
    """Replace NaN by a number that is never first: Paddle's comparisons skip NaN."""
    return jnp.where(jnp.isnan(x), x.dtype.type(number), x) if is_floating(x) else x


def _index_of_first(
    find: Finder, x: Array, axis: int, keepdim: bool, flatten: bool, dtype: DType
) -> Array:
    if flatten:
        index = find(x.reshape(x.size), 0, dtype.numpy)
        return index.reshape((1,) * x.ndim) if keepdim else index
    axis = normalize_axis(axis, x.ndim)
    index = find(x, axis, dtype.numpy)
    return jnp.expand_dims(index, axis) if keepdim else index


@lowers(ops.Argmax)
def argmax(x: Array, axis: int, keepdim: bool, flatten: bool, dtype: DType) -> Array:
    return _index_of_first(
        index_of_largest, _without_nan(x, -math.inf), axis, keepdim, flatten, dtype
    )


@lowers(ops.Argmin)
def argmin(x: Array, axis: int, keepdim: bool, flatten: bool, dtype: DType) -> Array:
    return _index_of_first(
        index_of_smallest, _without_nan(x, math.inf), axis, keepdim, flatten, dtype
    )


_MANY_ROWS = 256
"""From so many rows on, a loop takes 0.25 to 0.75 of a tree of sums' time on an Intel Xeon."""


@lowers(ops.Cumsum)
@compute_wide
def cumsum(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    if flatten:
        x, axis = x.reshape(x.size), 0
    axis = normalize_axis(axis, x.ndim)
    x = _shift(x, axis, reverse, 0) if exclusive else x
    tree = functools.partial(lax.cumsum, axis=axis, reverse=reverse)
    rows = x.shape[:-1]
    if rows and axis == x.ndim - 1 and not _are_many(rows):
        return tree(x)  # a loop would iterate over elements, and transpose x twice
    # -0.0 is the neutral element: a sum of -0.0 alone keeps its sign
    return cumulate(lax.add, -0.0, tree, x, axis, reverse=reverse)


def _are_many(rows: tuple[int, ...]) -> bool:
    """True if a loop along the rows of a CPU is quicker than a tree; sizes may be unknown."""
    return all(isinstance(size, int) for size in rows) and math.prod(rows) >= _MANY_ROWS


def _shift(x: Array, axis: int, reverse: bool, first: int) -> Array:
    """Shift x by one: `first` enters where results start, and the last element drops out."""
    padding = [(0, 0, 0)] * x.ndim
    padding[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return lax.pad(x, jnp.asarray(first, x.dtype), padding)


@lowers(ops.Cumprod)
@compute_wide
def cumprod(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    axis = normalize_axis(axis, x.ndim)
    x = _shift(x, axis, reverse, 1) if exclusive else x
    tree = functools.partial(lax.cumprod, axis=axis, reverse=reverse)
    return cumulate(lax.mul, 1, tree, x, axis, reverse=reverse)


@lowers(ops.Logcumsumexp)
@compute_wide
def logcumsumexp(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    shape = (x.size,) if flatten else x.shape
    x = x.reshape(x.size) if flatten or not x.ndim else x
    axis = 0 if flatten else normalize_axis(axis, x.ndim)
    if exclusive:
        nothing = jnp.full_like(lax.slice_in_dim(x, 0, min(1, x.shape[axis]), axis=axis), -jnp.inf)
        kept = [(1, None), (None, -1)][reverse is False]
        rest = x[(slice(None),) * axis + (slice(*kept),)]
        x = lax.concatenate([rest, nothing] if reverse else [nothing, rest], axis)
    return log_sums(x, axis, reverse=reverse).reshape(shape)


def _extreme(
    x: Array, axis: int, dtype: DType, beats: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    if not x.ndim:
        return x, jnp.zeros((), dtype.numpy)
    axis = normalize_axis(axis, x.ndim)
    places = lax.broadcasted_iota(np.dtype(dtype.numpy), x.shape, axis)

    def later(first: tuple[Array, ...], second: tuple[Array, ...]) -> tuple[Array, ...]:
        wins = beats(second[0], first[0])
        if is_floating(x):
            wins = wins & ~jnp.isnan(first[0]) | jnp.isnan(second[0])
        return tuple(jnp.where(wins, b, a) for a, b in zip(first, second, strict=True))

    def loop(x: Array) -> tuple[Array, ...]:
        first = tuple(lax.index_in_dim(each, 0, axis, keepdims=False) for each in (x, places))
        return running(later, first, (x, places), axis)

    def tree(x: Array) -> tuple[Array, ...]:
        where = lax.associative_scan(later, (lax.stop_gradient(x), places), axis=axis)[1]
        return jnp.take_along_axis(x, where, axis), where

    return on_cpus(x, axis, loop, tree)


@lowers(ops.Cummax)
def cummax(x: Array, axis: int, dtype: DType) -> tuple[Array, Array]:
    return _extreme(x, axis, dtype, lax.ge)


@lowers(ops.Cummin)
def cummin(x: Array, axis: int, dtype: DType) -> tuple[Array, Array]:
    return _extreme(x, axis, dtype, lax.le)
