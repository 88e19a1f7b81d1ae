"""Looking elements up by number in JAX.

Paddle raises for a number that is out of range. So does the runtime for fed numbers; numbers that a
step computes cannot raise, and read nan.
"""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.index import Accuracy, Embedding, FillRows, Gather, OneHot, Topk
from graphopt.ir.dialect.types import normalize_axis
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.base import Array, is_floating
from graphopt.lowering.registry import lowers


def lookup(index: Array, size: int, least: int = 0) -> Array:
    """Numbers of rows as int32; those out of range, from `least` on, are past the end.

    XLA would cut 64 bits to 32, and JAX count negative numbers from the end.
    """
    number = index.astype(np.int64)
    return jnp.where((number >= least) & (number < size), number, size).astype(np.int32)


@lowers(Embedding)
def embedding(x: Array, weight: Array, padding_idx: int) -> Array:
    rows = jnp.take(weight, lookup(x, weight.shape[0]), 0, mode="fill")
    if padding_idx == -1:  # Paddle's spelling of none
        return rows
    return jnp.where((x == padding_idx)[..., None], jnp.zeros((), rows.dtype), rows)


@lowers(OneHot)
def one_hot(x: Array, depth: int, dtype: DType) -> Array:
    return (x[..., None] == jnp.arange(depth, dtype=np.int64)).astype(dtype.numpy)


@lowers(Gather)
def gather(x: Array, index: Array, axis: int) -> Array:
    # from the end, as Paddle 3 does it
    rows = lookup(index.reshape(index.shape[:1]), x.shape[axis], -x.shape[axis])
    return jnp.take(x, rows, axis, mode="fill")


@lowers(Topk)
def topk(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    def flip(values: Array) -> Array:
        # `~` reverses the order of integers as `-` does that of floats, but has no overflow
        return values if largest else -values if is_floating(values) else ~values

    values, indices = lax.top_k(flip(x), k, axis=normalize_axis(axis, x.ndim))
    return flip(values), indices.astype(np.int64)


@lowers(Accuracy)
def accuracy(indices: Array, label: Array) -> tuple[Array, Array, Array]:
    rows = indices.shape[0]
    hits = jnp.any(indices == label.reshape(rows, 1), axis=-1)
    correct = jnp.sum(hits, dtype=np.int32)
    share = correct.astype(np.float32) / max(rows, 1)
    return share, correct, jnp.asarray(rows, np.int32)


@lowers(FillRows)
def fill_rows(x: Array, mask: Array, keep: bool) -> Array:
    kept = mask.reshape(-1) == keep
    if not x.shape[0]:
        return x
    numbers = lax.iota(np.int32, x.shape[0])
    return jnp.take(x, jnp.where(kept, numbers, jnp.argmax(kept).astype(np.int32)), 0)
