"""Attention by tiles of the scores (Dao and others, 2022): memory grows with the length alone.

For a block of queries the softmax is summed up over blocks of keys, each with the largest score so
far. What is kept for the derivative is the result and the logarithm of each row's sum; from these
the derivative computes the weights of each tile anew.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.attention import (
    Array,
    Operands,
    Weighing,
    at_once,
    kept,
    number,
    scores_of,
)

# queries and keys from which on tiles are faster on a CPU
LONG = 512
# how many queries and keys a tile has, at most; that many keys are one tile where there are no more
QUERIES, KEYS, ALL_KEYS = 512, 256, 512
# blocks of a sequence are multiples of what the widest registers hold
VECTOR = 16
# how many scores of a tile each core of a CPU has in its cache, with what is computed beside them
SCORES = 2**17
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def attention(operands: Operands, how: Weighing) -> Array:
    """[..., t, e], in the dtype of the operands; leading dimensions broadcast."""
    if min(operands.q.shape[-2], operands.k.shape[-2]) < LONG:
        return at_once(operands, how)
    q, k, v, mask, keep = operands
    batch = jnp.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if mask is not None:
        batch = jnp.broadcast_shapes(batch, mask.shape[:-2])
        mask = mask.reshape((1,) * (len(batch) + 2 - mask.ndim) + mask.shape)
        columns = jnp.broadcast_shapes(mask.shape[-1:], k.shape[-2:-1])
        mask = jnp.broadcast_to(mask, (*mask.shape[:-1], *columns))
    q, k, v = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    whole = Operands(q, k, v, mask, keep)
    # a batch that varies is a symbol here
    if not all(isinstance(n, int) for n in batch) or math.prod(batch) <= _heads_at_once(whole):
        return _attention(whole, how)
    # other devices have more cores than one head keeps busy
    return lax.platform_dependent(
        whole, cpu=partial(_by_heads, how=how), default=lambda operands: _attention(operands, how)
    )


def _heads_at_once(operands: Operands) -> int:
    """Of how many heads the tiles fit into the caches of a CPU."""
    return max(SCORES * CORES // (_queries(operands) * _keys(operands)), 1)


def _in_parts(
    compute: Callable[[Operands, Array | None], Array],
    operands: Operands,
    packed: Array | None,
    axis: int = 0,
) -> Array:
    """A few heads after the other, from this axis of the batch on: their tiles stay in the caches.

    All axes stay, because XLA multiplies batches of one matrix faster than matrices.
    """
    batch, fit = operands.q.shape[:-2], _heads_at_once(operands)
    if math.prod(batch) <= fit:
        return compute(operands, packed)
    count = batch[axis]
    most = max(fit // math.prod(batch[axis + 1 :]), 1)
    size = max(n for n in range(1, min(most, count) + 1) if count % n == 0)
    if size == count:
        return _in_parts(compute, operands, packed, axis + 1)
    # what is the same for all of them stays outside of the loop
    arrays = (*operands, packed)
    fixed = [x is None or x.shape[axis] != count for x in arrays]
    parts = [
        None if f or x is None else _cut(x, axis - x.ndim, size)
        for x, f in zip(arrays, fixed, strict=True)
    ]

    def part(cut: Sequence[Any]) -> Array:
        pairs = zip(arrays, cut, strict=True)
        full: list[Any] = [own if x is None else x for own, x in pairs]
        return _in_parts(compute, Operands(*full[:-1]), full[-1], axis + 1)

    out = lax.map(part, parts)
    return _joined(out, axis - len(batch) - 2, count)


def _all_packed(operands: Operands, how: Weighing) -> Array:
    """The results of all heads with the logarithms of their sums as a last column.

    In one array, so that a program that needs both and one that needs the results have the same
    loop, which XLA then runs once.
    """

    def packed(own: Operands, _: Array | None) -> Array:
        return jnp.concatenate(_forward(own, how), -1)

    return _in_parts(packed, operands, None)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _by_heads(operands: Operands, how: Weighing) -> Array:
    return _all_packed(operands, how)[..., :-1]


def _by_heads_saving(operands: Operands, how: Weighing) -> tuple[Array, tuple[Operands, Array]]:
    packed = _all_packed(operands, how)
    return packed[..., :-1], (operands, packed)


def _by_heads_backward(how: Weighing, saved: Any, of_out: Array) -> tuple[Operands]:
    operands, packed = saved

    def again(operands: Operands) -> Array:
        return _in_parts(lambda own, known: _known(own, known, how), operands, packed)

    return jax.vjp(again, operands)[1](of_out)


_by_heads.defvjp(_by_heads_saving, _by_heads_backward)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _known(operands: Operands, packed: Any, how: Weighing) -> Array:
    """The results that were computed before, as a function of what they were computed from."""
    return packed[..., :-1]


def _known_saving(operands: Operands, packed: Any, how: Weighing) -> tuple[Array, Any]:
    return packed[..., :-1], (operands, packed)


def _known_backward(how: Weighing, saved: Any, of_out: Array) -> tuple[Operands, Array]:
    operands, packed = saved
    (of_operands,) = _backward(how, (operands, packed[..., :-1], packed[..., -1:]), of_out)
    return of_operands, jnp.zeros_like(packed)


_known.defvjp(_known_saving, _known_backward)


def _undifferentiated(operands: Operands, how: Weighing) -> Array:
    return _forward(operands, how)[0]


_attention = jax.custom_vjp(_undifferentiated, nondiff_argnums=(1,))


def _saving(operands: Operands, how: Weighing) -> tuple[Array, tuple[Operands, Array, Array]]:
    out, log_sum = _forward(operands, how)
    return out, (operands, out, log_sum)


# Tiles --------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A block of queries, with what belongs to its rows of scores."""

    q: Array
    mask: Array | None
    keep: Array | None


class Columns(NamedTuple):
    """A block of keys and values, with what belongs to its columns of scores.

    `real` is false for a key that only fills up the last block.
    """

    k: Array
    v: Array
    mask: Array | None
    keep: Array | None
    real: Array | None


def _rows(operands: Operands) -> Rows:
    """Blocks of queries along a new first axis.

    A row that only fills up the last block is unmasked, so that its softmax is a number.
    """
    mask, keep, size = operands.mask, operands.keep, _queries(operands)
    return Rows(
        _cut(operands.q, -2, size),
        _cut(mask, -2, size, 1) if mask is not None and _has_rows(operands) else None,
        None if keep is None else _cut(keep, -2, size),
    )


def _columns(operands: Operands, rows: Rows) -> Columns:
    """Blocks of keys along a new first axis, for all rows or for a block of them."""
    mask = rows.mask if _has_rows(operands) else operands.mask
    size, keys = operands.k.shape[-2], _keys(operands)
    return Columns(
        _cut(operands.k, -2, keys),
        _cut(operands.v, -2, keys),
        None if mask is None else _cut(mask, -1, keys),
        None if rows.keep is None else _cut(rows.keep, -1, keys),
        _cut(jnp.ones((1, size), bool), -1, keys) if size % keys else None,
    )


def _queries(operands: Operands) -> int:
    """How many queries a tile has."""
    return _even(operands.q.shape[-2], QUERIES)


def _keys(operands: Operands) -> int:
    """How many keys a tile has."""
    count = operands.k.shape[-2]
    return _even(count, KEYS if count > ALL_KEYS else max(KEYS, ALL_KEYS))


def _even(count: int, most: int) -> int:
    """The size of equal blocks, of `most` at most, that together have little more than `count`."""
    blocks = -(-count // most)
    size = -(-count // blocks)
    return min(-(-size // VECTOR) * VECTOR, most) if blocks > 1 else size


def _tile(q: Array, columns: Columns, how: Weighing) -> Array:
    """The scores of a block of queries for a block of keys."""
    scores = scores_of(Operands(q, columns.k, columns.v, columns.mask, None), how)
    return scores if columns.real is None else jnp.where(columns.real, scores, -jnp.inf)


def _unless_hidden(tile: Columns, how: Weighing, work: Any, carry: Any, nothing: Any) -> Any:
    """What `work` makes of a carry, or the carry and `nothing` when the mask hides all of a tile.

    So half of the work of causal attention is left out.
    """
    mask = tile.mask
    if mask is None or mask.dtype != np.bool_ or how.fill != -np.inf:
        return work(carry)
    return lax.cond(jnp.any(mask), work, lambda carry: (carry, nothing), carry)


def _has_rows(operands: Operands) -> bool:
    """True when the mask has a row for each query."""
    return operands.mask is not None and operands.mask.shape[-2] != 1


def _cut(array: Array, axis: int, size: int, filling: int = 0) -> Array:
    """Blocks of an axis, filled up, along a new first axis."""
    at = array.ndim + axis
    count = -(-array.shape[at] // size)
    edges = [(0, 0)] * array.ndim
    edges[at] = (0, count * size - array.shape[at])
    filled = jnp.pad(array, edges, constant_values=filling)
    shape = (*array.shape[:at], count, size, *array.shape[at + 1 :])
    return jnp.moveaxis(filled.reshape(shape), at, 0)


def _joined(blocks: Array, axis: int, size: int) -> Array:
    """The inverse of `_cut`."""
    at = blocks.ndim - 1 + axis
    array = jnp.moveaxis(blocks, 0, at)
    array = array.reshape(*array.shape[:at], -1, *array.shape[at + 2 :])
    return lax.slice_in_dim(array, 0, size, axis=at)


# Forward ------------------------------------------------------------------------------------------


def _forward(operands: Operands, how: Weighing) -> tuple[Array, Array]:
    """The result, and the logarithm of the sum of each row's exponentials."""

    def block(rows: Rows) -> tuple[Array, Array]:
        shape = (*rows.q.shape[:-1], operands.v.shape[-1])
        start = (
            jnp.full((*shape[:-1], 1), -jnp.inf, rows.q.dtype),
            jnp.zeros((*shape[:-1], 1), rows.q.dtype),
            jnp.zeros(shape, rows.q.dtype),
        )

        def add(carry: Any, columns: Columns) -> tuple[Any, None]:
            work = partial(_added, q=rows.q, tile=columns, how=how)
            return _unless_hidden(columns, how, work, carry, None)

        (top, total, out), _ = lax.scan(add, start, _columns(operands, rows))
        return out / total, _finite(top) + lax.log(total)

    out, log_sum = lax.map(block, _rows(operands))
    count = operands.q.shape[-2]
    return _joined(out, -2, count), _joined(log_sum, -2, count)


def _added(carry: Any, q: Array, tile: Columns, how: Weighing) -> tuple[Any, None]:
    """The maximum, the sum and the weighted sum of values with a block of keys more."""
    top, total, out = carry
    scores = _tile(q, tile, how)
    higher = jnp.maximum(top, jnp.max(scores, -1, keepdims=True))
    weights = lax.exp(scores - _finite(higher))
    shrink = lax.exp(top - _finite(higher))
    total = total * shrink + jnp.sum(weights, -1, keepdims=True)
    out = out * shrink + jnp.matmul(kept(weights, tile.keep, how), tile.v)
    return (higher, total, out), None


def _finite(top: Array) -> Array:
    """A maximum to subtract: zero while no score is there yet."""
    return jnp.where(top == -jnp.inf, jnp.zeros((), top.dtype), top)


# The derivative -----------------------------------------------------------------------------------


class Saved(NamedTuple):
    """What the derivative needs of a block of queries besides its `Rows`.

    `shift` is what the softmax takes from the cotangent of each of its elements.
    """

    of_out: Array
    log_sum: Array
    shift: Array


def _backward(how: Weighing, saved: Any, of_out: Array) -> tuple[Operands]:
    """For each block of keys a pass over the blocks of queries."""
    operands, out, log_sum = saved
    shift = jnp.sum(out * of_out, -1, keepdims=True)
    parts = Saved(*(_cut(x, -2, _queries(operands)) for x in (of_out, log_sum, shift)))
    rows, by_row = _rows(operands), _has_rows(operands)
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

    blocks = _columns(operands, rows)
    of_q, (of_k, of_v, of_mask) = lax.scan(column, jnp.zeros_like(rows.q), blocks)
    count, size = operands.q.shape[-2], operands.k.shape[-2]
    return (
        Operands(
            _joined(of_q, -2, count),
            _joined(of_k, -2, size),
            _joined(of_v, -2, size),
            _of_mask(operands, of_mask),
            None if operands.keep is None else _nothing(operands.keep),
        ),
    )


_attention.defvjp(_saving, _backward)


def _pulled_back(
    sums: Any, q: Array, saved: Saved, tile: Columns, how: Weighing
) -> tuple[Any, tuple[Array, Array | None]]:
    """The sums for a block of keys with a block of queries more, and what that block gets."""
    of_k, of_v, of_mask = sums
    weights = lax.exp(_tile(q, tile, how) - saved.log_sum)
    of_v += jnp.matmul(kept(weights, tile.keep, how).mT, saved.of_out)
    of_weights = kept(jnp.matmul(saved.of_out, tile.v.mT), tile.keep, how)
    of_scores = weights * (of_weights - saved.shift)
    of_tile = None
    if tile.mask is not None and tile.mask.dtype == np.bool_:
        of_scores = jnp.where(tile.mask, of_scores, jnp.zeros((), of_scores.dtype))
    elif tile.mask is not None:
        of_tile = _sum_to(of_scores, tile.mask.shape)
        of_mask, of_tile = (None, of_tile) if of_mask is None else (of_mask + of_tile, None)
    of_scores = of_scores * number(how.scale, of_scores)
    of_k += jnp.matmul(of_scores.mT, q)
    return (of_k, of_v, of_mask), (jnp.matmul(of_scores, tile.k), of_tile)


def _of_mask(operands: Operands, found: Array | None) -> Any:
    """The gradient of the mask from those of its blocks."""
    mask = operands.mask
    if mask is None or found is None:
        return None if mask is None else _nothing(mask)
    joined = _joined(found, -1, mask.shape[-1])
    return _joined(joined, -2, mask.shape[-2]) if _has_rows(operands) else joined


def _nothing(array: Array) -> Any:
    """The gradient of a boolean array."""
    return np.zeros(array.shape, jax.dtypes.float0)


def _sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the axes that are 1 in `shape`."""
    axes = [i for i, (a, b) in enumerate(zip(array.shape, shape, strict=True)) if a != b]
    return jnp.sum(array, axes, keepdims=True)
