"""Attention by tiles of the scores (Dao and others, 2022): memory grows with the length alone.

For a block of queries the softmax is summed up over blocks of keys, each with the largest score so
far. The result and the logarithm of each row's sum are kept for the derivative, which recomputes
the weights of each tile from them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels.attention import (
    Array,
    AttentionOperands,
    ScoreWeighing,
    drop_weights,
    number,
    scores_of,
)

# the most queries and keys of a tile; up to ALL_KEYS keys form one tile
QUERIES, KEYS, ALL_KEYS = 512, 256, 512
# block sizes are multiples of the vector length of the widest registers
VECTOR = 16


# Tiles --------------------------------------------------------------------------------------------


class Tiles(NamedTuple):
    """The number of queries and of keys of a tile."""

    queries: int
    keys: int


def usual_tiles(operands: AttentionOperands) -> Tiles:
    """Choose tiles that fit into caches."""
    return tiles_up_to(
        operands, Tiles(QUERIES, KEYS if operands.k.shape[-2] > ALL_KEYS else ALL_KEYS)
    )


def tiles_up_to(operands: AttentionOperands, most: Tiles) -> Tiles:
    """Choose equal tiles of at most this many queries and keys."""
    queries, keys = operands.q.shape[-2], operands.k.shape[-2]
    return Tiles(_even(queries, most.queries), _even(keys, most.keys))


class Rows(NamedTuple):
    """A block of queries, with the values that belong to its rows of scores."""

    q: Array
    mask: Array | None
    keep: Array | None


class Columns(NamedTuple):
    """A block of keys and values, with the values that belong to its columns of scores.

    `real` is false for a key that only fills up the last block.
    """

    k: Array
    v: Array
    mask: Array | None
    keep: Array | None
    real: Array | None


def _rows(operands: AttentionOperands, tiles: Tiles) -> Rows:
    """Split queries into blocks along a new first axis.

    A row that only fills up the last block is unmasked, so that its softmax is a number.
    """
    mask, keep, size = operands.mask, operands.keep, tiles.queries
    return Rows(
        cut_up(operands.q, -2, size),
        cut_up(mask, -2, size, 1) if mask is not None and _has_rows(operands) else None,
        None if keep is None else cut_up(keep, -2, size),
    )


def _columns(operands: AttentionOperands, rows: Rows, tiles: Tiles) -> Columns:
    """Split keys into blocks along a new first axis, for all rows or for a block of them."""
    mask = rows.mask if _has_rows(operands) else operands.mask
    size, keys = operands.k.shape[-2], tiles.keys
    return Columns(
        cut_up(operands.k, -2, keys),
        cut_up(operands.v, -2, keys),
        None if mask is None else cut_up(mask, -1, keys),
        None if rows.keep is None else cut_up(rows.keep, -1, keys),
        cut_up(jnp.ones((1, size), bool), -1, keys) if size % keys else None,
    )


def _even(count: int, most: int) -> int:
    """Choose the size of equal blocks, at most `most`, that together barely exceed `count`."""
    blocks = -(-count // most)
    size = -(-count // blocks)
    return min(-(-size // VECTOR) * VECTOR, most) if blocks > 1 else size


def _tile(q: Array, columns: Columns, how: ScoreWeighing) -> Array:
    """Compute the scores of a block of queries for a block of keys."""
    scores = scores_of(AttentionOperands(q, columns.k, columns.v, columns.mask, None), how)
    return scores if columns.real is None else jnp.where(columns.real, scores, -jnp.inf)


def hides(mask: Array | None, how: ScoreWeighing) -> bool:
    """True for a boolean mask that leaves no weight where it is false."""
    return mask is not None and mask.dtype == np.bool_ and how.fill == -np.inf


def _unless_hidden(tile: Columns, how: ScoreWeighing, work: Any, carry: Any, nothing: Any) -> Any:
    """Run `work` on a carry; skip it and return `nothing` if the mask hides the whole tile.

    This saves half of the work of causal attention.
    """
    mask = tile.mask
    if mask is None or not hides(mask, how):
        return work(carry)
    return lax.cond(jnp.any(mask), work, lambda carry: (carry, nothing), carry)


def _has_rows(operands: AttentionOperands) -> bool:
    """True when the mask has a row for each query."""
    return operands.mask is not None and operands.mask.shape[-2] != 1


def cut_up(array: Array, axis: int, size: int, filling: int = 0) -> Array:
    """Split an axis into blocks, the last one filled up, along a new first axis."""
    at = array.ndim + axis
    count = -(-array.shape[at] // size)
    edges = [(0, 0)] * array.ndim
    edges[at] = (0, count * size - array.shape[at])
    filled = jnp.pad(array, edges, constant_values=filling)
    shape = (*array.shape[:at], count, size, *array.shape[at + 1 :])
    return jnp.moveaxis(filled.reshape(shape), at, 0)


def put_together(blocks: Array, axis: int, size: int) -> Array:
    """Undo `cut_up`."""
    at = blocks.ndim - 1 + axis
    array = jnp.moveaxis(blocks, 0, at)
    array = array.reshape(*array.shape[:at], -1, *array.shape[at + 2 :])
    return lax.slice_in_dim(array, 0, size, axis=at)


# Forward ------------------------------------------------------------------------------------------


def forward(operands: AttentionOperands, how: ScoreWeighing, tiles: Tiles) -> Array:
    """Compute the result and, as a last column, the logarithm of each row's sum of exponentials.

    Both are one array, so that a program that needs both and one that needs only the result have
    the same loop, which XLA then runs once.
    """

    def block(rows: Rows) -> Array:
        shape = (*rows.q.shape[:-1], operands.v.shape[-1])
        start = (
            jnp.full((*shape[:-1], 1), -jnp.inf, rows.q.dtype),
            jnp.zeros((*shape[:-1], 1), rows.q.dtype),
            jnp.zeros(shape, rows.q.dtype),
        )

        def add(carry: Any, columns: Columns) -> tuple[Any, None]:
            work = partial(_add_block, q=rows.q, tile=columns, how=how)
            return _unless_hidden(columns, how, work, carry, None)

        (top, total, out), _ = lax.scan(add, start, _columns(operands, rows, tiles))
        return jnp.concatenate([out / total, _finite(top) + lax.log(total)], -1)

    return put_together(lax.map(block, _rows(operands, tiles)), -2, operands.q.shape[-2])


def _add_block(carry: Any, q: Array, tile: Columns, how: ScoreWeighing) -> tuple[Any, None]:
    """Update the maximum, the sum and the weighted sum of values with one more block of keys."""
    top, total, out = carry
    scores = _tile(q, tile, how)
    higher = jnp.maximum(top, jnp.max(scores, -1, keepdims=True))
    weights = lax.exp(scores - _finite(higher))
    shrink = lax.exp(top - _finite(higher))
    total = total * shrink + jnp.sum(weights, -1, keepdims=True)
    out = out * shrink + jnp.matmul(drop_weights(weights, tile.keep, how), tile.v)
    return (higher, total, out), None


def _finite(top: Array) -> Array:
    """Replace a maximum of -inf, where there is no score yet, by 0 for subtraction."""
    return jnp.where(top == -jnp.inf, jnp.zeros((), top.dtype), top)


# The derivative -----------------------------------------------------------------------------------


class Saved(NamedTuple):
    """Values of a block of queries that the derivative needs with its `Rows`.

    `shift` is the number that the softmax subtracts from the cotangent of each element.
    """

    of_out: Array
    log_sum: Array
    shift: Array


def backward(
    how: ScoreWeighing, tiles: Tiles, saved: Any, of_out: Array
) -> tuple[AttentionOperands]:
    """Compute the gradients: for each block of keys, a pass over the blocks of queries."""
    operands, out, log_sum = saved
    shift = jnp.sum(out * of_out, -1, keepdims=True)
    parts = Saved(*(cut_up(x, -2, tiles.queries) for x in (of_out, log_sum, shift)))
    rows, by_row = _rows(operands, tiles), _has_rows(operands)
    adds = operands.mask is not None and operands.mask.dtype != np.bool_

    def column(of_q: Array, block: Columns) -> tuple[Array, Any]:
        def row(sums: Any, part: tuple[Array, Saved, Any, Any]) -> tuple[Any, Any]:
            q, of_row, mask, keep = part
            tile = block._replace(mask=mask if by_row else block.mask, keep=keep)
            work = partial(_pulled_back, q=q, saved=of_row, tile=tile, how=how)
            return _unless_hidden(tile, how, work, sums, (jnp.zeros_like(q), None))

        summed = None
        if block.mask is not None and adds and not by_row:
            summed = jnp.zeros_like(block.mask)
        start = (jnp.zeros_like(block.k), jnp.zeros_like(block.v), summed)
        masks = block.mask if by_row else None
        sums, (part, tiles) = lax.scan(row, start, (rows.q, parts, masks, block.keep))
        return of_q + part, (*sums[:2], tiles if by_row else sums[2])

    blocks = _columns(operands, rows, tiles)
    of_q, (of_k, of_v, of_mask) = lax.scan(column, jnp.zeros_like(rows.q), blocks)
    count, size = operands.q.shape[-2], operands.k.shape[-2]
    return (
        AttentionOperands(
            put_together(of_q, -2, count),
            put_together(of_k, -2, size),
            put_together(of_v, -2, size),
            _of_mask(operands, of_mask),
            None if operands.keep is None else _nothing(operands.keep),
        ),
    )


def _pulled_back(
    sums: Any, q: Array, saved: Saved, tile: Columns, how: ScoreWeighing
) -> tuple[Any, tuple[Array, Array | None]]:
    """Add a block of queries to the sums for a block of keys; compute the queries' gradients."""
    of_k, of_v, of_mask = sums
    weights = lax.exp(_tile(q, tile, how) - saved.log_sum)
    of_v += _transposed_product(drop_weights(weights, tile.keep, how), saved.of_out)
    of_weights = drop_weights(jnp.matmul(saved.of_out, tile.v.mT), tile.keep, how)
    of_scores = weights * (of_weights - saved.shift)
    of_tile = None
    if tile.mask is not None and tile.mask.dtype == np.bool_:
        of_scores = jnp.where(tile.mask, of_scores, jnp.zeros((), of_scores.dtype))
    elif tile.mask is not None:
        of_tile = _sum_to(of_scores, tile.mask.shape)
        of_mask, of_tile = (None, of_tile) if of_mask is None else (of_mask + of_tile, None)
    of_scores = of_scores * number(how.scale, of_scores)
    of_k += _transposed_product(of_scores, q)
    return (of_k, of_v, of_mask), (jnp.matmul(of_scores, tile.k), of_tile)


def _transposed_product(large: Array, small: Array) -> Array:
    """Compute `large.mT @ small`: XLA transposes the small operand in half the time."""
    return jnp.matmul(lax.optimization_barrier(small.mT), large).mT


def _of_mask(operands: AttentionOperands, found: Array | None) -> Any:
    """Join the gradients of the mask's blocks."""
    mask = operands.mask
    if mask is None or found is None:
        return None if mask is None else _nothing(mask)
    joined = put_together(found, -1, mask.shape[-1])
    return put_together(joined, -2, mask.shape[-2]) if _has_rows(operands) else joined


def _nothing(array: Array) -> Any:
    """Return the gradient of a boolean array, zeros of float0."""
    return np.zeros(array.shape, jax.dtypes.float0)


def _sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes that are 1 in `shape`."""
    axes = [i for i, (a, b) in enumerate(zip(array.shape, shape, strict=True)) if a != b]
    return jnp.sum(array, axes, keepdims=True)
