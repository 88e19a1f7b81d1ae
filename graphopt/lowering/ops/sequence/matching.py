"""Pairs of text sequences, and sequences with a tag: sizes come from the data."""

from __future__ import annotations

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence.matching import FilterByInstag, MatchMatrixTensor
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(MatchMatrixTensor)
def match_matrix_tensor(
    x: Array, x_lengths: Array, y: Array, y_lengths: Array, weight: Array
) -> tuple[Array, Array, Array]:
    what = "the number of rows of match_matrix_tensor"
    first, second = concrete(x_lengths, what), concrete(y_lengths, what)
    channels, width = weight.shape[1:]
    products = wide(x) @ wide(weight).reshape(weight.shape[0], -1)
    rows: list[Array] = []
    starts = np.cumsum(first) - first, np.cumsum(second) - second
    for at, own, start, other in zip(starts[0], first, starts[1], second, strict=True):
        left = products[at : at + own].reshape(own, channels, width)
        rows.append(jnp.einsum("kce,le->ckl", left, wide(y)[start : start + other]).reshape(-1))
    found = jnp.concatenate(rows) if rows else jnp.zeros(0, products.dtype)
    lengths = jnp.asarray(channels * first * second, x_lengths.dtype)
    return found[:, None].astype(x.dtype), lengths, products.astype(x.dtype)


@lowers(FilterByInstag)
def filter_by_instag(
    x: Array,
    tags: Array,
    tag_lengths: Array,
    wanted: Array,
    lengths: Array | None,
    out_val_if_empty: float,
) -> tuple[Array, ...]:
    what = "the number of rows of filter_by_instag"
    sizes = concrete(tag_lengths, what).astype(np.int64)
    own = np.ones(len(x), np.int64)
    if lengths is not None:
        own = concrete(lengths, what).astype(np.int64)
    hits = np.isin(concrete(tags, what).reshape(-1), concrete(wanted, what))
    number = np.repeat(np.arange(len(sizes)), sizes)
    kept = np.bincount(number, hits[: len(number)], len(sizes)) > 0
    if not kept.any():
        one = np.ones(1, np.int64)
        none = jnp.full((1, *x.shape[1:]), out_val_if_empty, x.dtype)
        weight = jnp.zeros((1, 1), x.dtype)
        return none, weight, jnp.asarray([[0, 1, 1]], np.int64), jnp.asarray(one)
    starts, left = (np.cumsum(own) - own)[kept], own[kept]
    goes = np.cumsum(left) - left
    places = np.repeat(starts - goes, left) + np.arange(left.sum())
    index = np.stack([goes, starts, left], 1)
    weight = jnp.ones((len(left), 1), x.dtype)
    return jnp.take(x, places, 0), weight, jnp.asarray(index), jnp.asarray(left)
