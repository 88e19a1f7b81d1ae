"""Matching of boxes with objects, for all images at once."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.detection.matching import (
    PER_PREDICTION,
    BipartiteMatch,
    MineHardExamples,
    TargetAssign,
)
from graphopt.lowering.kernels.ordering import argsort
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.sequence.layers import ends_of, numbers_of
from graphopt.lowering.registry import lowers

# pairs of smaller similarity never match
_LEAST = 1e-6
_LAST = np.iinfo(np.int32).max


def _owners(lengths: Array | None, rows: int) -> tuple[Array, Array, int]:
    """Find each row's image, its index in that image, and the number of images."""
    at = jnp.arange(rows, dtype="int32")
    if lengths is None:
        return jnp.zeros(rows, "int32"), at, 1
    images = numbers_of(lengths, rows).astype("int32")
    starts = (ends_of(lengths) - lengths.astype("int64")).astype("int32")
    return images, at - jnp.take(starts, images), lengths.shape[0]


@lowers(BipartiteMatch)
def bipartite_match(
    dist: Array, lengths: Array | None, match_type: str, dist_threshold: float
) -> tuple[Array, Array]:
    dist = lax.stop_gradient(dist)
    rows, boxes = dist.shape
    image, number, images = _owners(lengths, rows)
    found = jnp.full((images, boxes), -1, "int32"), jnp.zeros((images, boxes), dist.dtype)
    if not rows or not boxes or not images:
        return found
    dist = jnp.where(dist < _LEAST, -jnp.inf, dist)

    def first(chosen: Array, value: Array) -> Array:
        """Find the smallest value among the chosen rows of each image."""
        return jax.ops.segment_min(jnp.where(chosen, value, _LAST), image, images)

    def more(state: Any) -> Array:
        return state[0]

    def step(state: Any) -> Any:
        """Match each image's nearest pair; of equal ones the first box, then the first object."""
        _, is_free, indices, nearness = state
        left = jnp.where(is_free[:, None] & (indices[image] < 0), dist, -jnp.inf)
        box, best = jnp.argmax(left, 1).astype("int32"), jnp.max(left, 1)
        most = jax.ops.segment_max(best, image, images)
        chosen = (best == most[image]) & (best > -jnp.inf)
        at = first(chosen, box)
        chosen &= box == at[image]
        row = first(chosen, jnp.arange(rows, dtype="int32"))
        each = jnp.arange(images)
        to = jnp.where(row < _LAST, at, boxes)
        indices = indices.at[each, to].set(number[jnp.minimum(row, rows - 1)], mode="drop")
        nearness = nearness.at[each, to].set(most, mode="drop")
        is_free = is_free.at[jnp.where(row < _LAST, row, rows)].set(False, mode="drop")
        return (row < _LAST).any(), is_free, indices, nearness

    start = (jnp.asarray(True), jnp.ones(rows, bool), *found)
    *_, indices, nearness = lax.while_loop(more, step, start)
    if match_type != PER_PREDICTION:
        return indices, nearness
    close = jnp.where(dist >= dist_threshold, dist, -jnp.inf)
    most = jax.ops.segment_max(close, image, images)
    own = (close == most[image]) & (close > -jnp.inf)
    nearest = jax.ops.segment_min(jnp.where(own, number[:, None], _LAST), image, images)
    takes = (indices < 0) & (nearest < _LAST)
    return jnp.where(takes, nearest, indices), jnp.where(takes, most, nearness)


@lowers(TargetAssign)
def target_assign(
    x: Array,
    lengths: Array | None,
    match_indices: Array,
    neg_indices: Array | None,
    neg_lengths: Array | None,
    mismatch_value: float,
) -> tuple[Array, Array]:
    if x.ndim == 2:
        x = x[:, None]
    images, boxes = match_indices.shape
    rows, width, _ = x.shape
    starts = np.zeros(1, np.int64)
    if lengths is not None:
        starts = ends_of(lengths) - lengths.astype("int64")
    has_object = match_indices > -1
    value = jnp.asarray(mismatch_value, x.dtype)
    if rows:
        row = jnp.clip(starts[:, None] + match_indices, 0, rows - 1)
        found = x[row, np.arange(boxes) % width]
    else:
        found = jnp.zeros((images, boxes, x.shape[2]), x.dtype)
    if neg_indices is None:
        out = jnp.where(has_object[..., None], found, value)
        return out, has_object[..., None].astype("float32")
    count = neg_indices.size
    image, _, _ = _owners(neg_lengths, count)
    at = image, neg_indices.reshape(-1)
    is_negative = jnp.zeros((images, boxes), bool).at[at].set(True, mode="drop")
    out = jnp.where((has_object & ~is_negative)[..., None], found, value)
    return out, (has_object | is_negative)[..., None].astype("float32")


@lowers(MineHardExamples)
def mine_hard_examples(
    cls_loss: Array,
    loc_loss: Array | None,
    match_indices: Array,
    match_dist: Array,
    neg_pos_ratio: float,
    neg_dist_threshold: float,
    sample_size: int,
    mining_type: str,
) -> tuple[Array, Array]:
    loss = lax.stop_gradient(cls_loss)
    has_object = match_indices > -1
    if mining_type == "max_negative":
        takes_part = ~has_object & (match_dist < neg_dist_threshold)
        counts = has_object.sum(1).astype("float32") * np.float32(neg_pos_ratio)
        chosen = _largest(loss, takes_part, counts.astype("int32")[:, None])
        return chosen.astype(match_indices.dtype), match_indices
    loss = loss if loc_loss is None else loss + lax.stop_gradient(loc_loss)
    chosen = _largest(loss, jnp.ones_like(has_object), sample_size)
    negatives = chosen & ~has_object
    left = jnp.where(has_object & ~chosen, -1, match_indices)
    return negatives.astype(match_indices.dtype), left


def _largest(loss: Array, takes_part: Array, count: Any) -> Array:
    """True for the `count` largest losses of each row among those that take part."""
    order = argsort(jnp.where(takes_part, -loss, jnp.inf))
    ranks = argsort(order.astype("int32"))
    return takes_part & (ranks < count)
