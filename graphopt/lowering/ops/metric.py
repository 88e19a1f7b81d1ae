"""Metrics of classifiers in JAX."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.metric import Accuracy, Auc
from graphopt.lowering.ops.base import Array, quotient
from graphopt.lowering.registry import lowers


@lowers(Auc)
def auc(
    x: Array, label: Array, stat_pos: Array, stat_neg: Array, num_thresholds: int, slide_steps: int
) -> tuple[Array, ...]:
    buckets = num_thresholds + 1
    scores = x[:, -1].astype(np.float32)  # Paddle computes buckets in float32
    # a probability outside [0, 1] has no bucket; it is not counted, and makes the result NaN
    valid = (scores >= 0) & (scores <= 1)
    bins = lax.convert_element_type(scores * num_thresholds, np.dtype(np.int32))
    bins = jnp.where(valid, bins, buckets)
    label = label.reshape(-1)
    counted: list[Array] = []
    kept: list[Array] = []
    for stat, chosen in ((stat_pos, label > 0), (stat_neg, label == 0)):
        new = jnp.zeros((buckets,), stat.dtype).at[bins].add(chosen.astype(stat.dtype), mode="drop")
        total, state = _slide(jnp.asarray(stat).reshape(-1), new, buckets, slide_steps)
        counted.append(total)
        kept.append(state.reshape(stat.shape))
    area = _area(*counted)
    return (jnp.where(jnp.all(valid), area, jnp.full_like(area, jnp.nan)), *kept)


def _slide(stat: Array, new: Array, buckets: int, slide_steps: int) -> tuple[Array, Array]:
    """Compute the counts of the present window, and the statistics after this batch."""
    if slide_steps == 0:
        return stat + new, stat + new
    rows = stat[:-1].reshape(slide_steps + 1, buckets)
    batch = stat[-1]
    at = batch % slide_steps
    total = rows[-1] - rows[at] + new
    rows = rows.at[at].set(new).at[-1].set(total)
    return total, jnp.concatenate([rows.reshape(-1), (batch + 1)[None]])


def _area(positive: Array, negative: Array) -> Array:
    """Compute the area under true over false positives, from the highest threshold down."""
    tp, fp = (jnp.cumsum(c[::-1]).astype(np.float64) for c in (positive, negative))
    before = jnp.concatenate([jnp.zeros((1,), tp.dtype), tp[:-1]])
    widths = negative[::-1].astype(np.float64)
    area = jnp.sum(widths * (tp + before) / 2)
    usable = (tp[-1] > 0) & (fp[-1] > 0)
    divisor = jnp.where(usable, tp[-1] * fp[-1], jnp.ones_like(area))
    return jnp.where(usable, area / divisor, area)


@lowers(Accuracy)
def accuracy(indices: Array, label: Array) -> tuple[Array, Array, Array]:
    rows = indices.shape[0]
    hits = jnp.any(indices == label.reshape(rows, 1), axis=-1)
    correct = jnp.sum(hits, dtype=np.int32)
    share = quotient(correct.astype(np.float32), np.float32(max(rows, 1)))
    return share, correct, jnp.asarray(rows, np.int32)
