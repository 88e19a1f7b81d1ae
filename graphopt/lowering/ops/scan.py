"""Running results along an axis in JAX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.scan import Cummax, Cummin, Logcumsumexp
from graphopt.ir.dialect.types import normalize_axis
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.base import Array, is_floating, widened
from graphopt.lowering.registry import lowers


@lowers(Logcumsumexp)
@widened
def logcumsumexp(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    x = x.reshape(x.size) if flatten or not x.ndim else x
    axis = 0 if flatten else normalize_axis(axis, x.ndim)
    if exclusive:
        nothing = jnp.full_like(lax.slice_in_dim(x, 0, min(1, x.shape[axis]), axis=axis), -jnp.inf)
        kept = [(1, None), (None, -1)][reverse is False]
        rest = x[(slice(None),) * axis + (slice(*kept),)]
        x = lax.concatenate([rest, nothing] if reverse else [nothing, rest], axis)
    return lax.cumlogsumexp(x, axis, reverse)


def _extreme(
    x: Array, axis: int, dtype: DType, beats: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    if not x.ndim:
        return x, jnp.zeros((), dtype.numpy)
    axis = normalize_axis(axis, x.ndim)
    places = lax.broadcasted_iota(np.dtype(dtype.numpy), x.shape, axis)

    def later(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        wins = beats(second[0], first[0])
        if is_floating(x):
            wins = wins & ~jnp.isnan(first[0]) | jnp.isnan(second[0])
        values = (jnp.where(wins, b, a) for a, b in zip(first, second, strict=True))
        return tuple(values)  # pyright: ignore

    where = lax.associative_scan(later, (lax.stop_gradient(x), places), axis=axis)[1]
    return jnp.take_along_axis(x, where, axis), where


@lowers(Cummax)
def cummax(x: Array, axis: int, dtype: DType) -> tuple[Array, Array]:
    return _extreme(x, axis, dtype, lax.ge)


@lowers(Cummin)
def cummin(x: Array, axis: int, dtype: DType) -> tuple[Array, Array]:
    return _extreme(x, axis, dtype, lax.le)
