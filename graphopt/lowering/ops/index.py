"""Looking elements up by number in JAX.

Paddle raises for a number that is out of range; a compiled program cannot, and reads nan instead.
"""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dtypes import DType
from graphopt.ir.ops.index import Accuracy, Embedding, FillRows, Gather, OneHot, Topk
from graphopt.ir.types import normalize_axis
from graphopt.lowering.ops.base import Array, is_floating
from graphopt.lowering.registry import lowers


@lowers(Embedding)
def embedding(x: Array, weight: Array, padding_idx: int) -> Array:
    rows = jnp.take(weight, x, 0, mode="fill")
    if padding_idx == -1:  # Paddle's spelling of none
        return rows
    return jnp.where((x == padding_idx)[..., None], jnp.zeros((), rows.dtype), rows)


@lowers(OneHot)
def one_hot(x: Array, depth: int, dtype: DType) -> Array:
    return (x[..., None] == jnp.arange(depth, dtype=np.int64)).astype(dtype.numpy)


@lowers(Gather)
def gather(x: Array, index: Array, axis: int) -> Array:
    return jnp.take(x, index.reshape(index.shape[:1]), axis, mode="fill")


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
