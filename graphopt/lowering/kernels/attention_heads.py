"""Attention of many heads: at once where sequences are short, else by tiles, a few heads at a time.

A CPU has the scores of few heads in its caches, so it takes those one after the other; other
devices have more cores than a few heads keep busy. Products are quicker the larger they are, so a
CPU's tiles are large, and a head of medium length is one tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.cores import CORES
from graphopt.lowering.kernels.attention import Array, AttentionOperands, ScoreWeighing, at_once
from graphopt.lowering.kernels.flash import (
    Tiles,
    backward,
    cut_up,
    forward,
    hides,
    put_together,
    tiles_up_to,
    usual_tiles,
)

# the number of queries and of keys from which on tiles are faster on a CPU
LONG = 512
# the scores computed together for each core: they fit in its cache with their temporaries
SCORES = 2**17
# for large tiles: the same number, the most scores of a head in one tile, and tiles of longer heads
LARGE_SCORES, WHOLE_HEAD, LARGE = 2**19, 2**22, Tiles(1024, 1024)


class Schedule(NamedTuple):
    """The tiles of a head, and the number of heads that are computed together (None: all)."""

    tiles: Tiles
    heads: int | None


def attention(operands: AttentionOperands, how: ScoreWeighing) -> Array:
    """Compute attention, [..., t, e], in the operands' dtype; leading dimensions broadcast."""
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
    whole = AttentionOperands(q, k, v, mask, keep)
    tiles = usual_tiles(whole)
    every = partial(_by_heads, how=how, schedule=Schedule(tiles, None))
    # a dynamic batch size is a symbol
    if not all(isinstance(n, int) for n in batch):
        return every(whole)
    on_cpu = _schedule_of_cpu(whole, how)
    if on_cpu.tiles == tiles and on_cpu.heads is not None and math.prod(batch) <= on_cpu.heads:
        return every(whole)
    return lax.platform_dependent(
        whole, cpu=partial(_by_heads, how=how, schedule=on_cpu), default=every
    )


def _schedule_of_cpu(operands: AttentionOperands, how: ScoreWeighing) -> Schedule:
    """Choose the schedule for a CPU.

    A mask that hides tiles saves work, so that these stay small.
    """
    if hides(operands.mask, how):
        tiles = usual_tiles(operands)
        return Schedule(tiles, _fit(SCORES, tiles))
    tiles = Tiles(operands.q.shape[-2], operands.k.shape[-2])
    if math.prod(tiles) > WHOLE_HEAD:
        tiles = tiles_up_to(operands, LARGE)
    heads, batch = _fit(LARGE_SCORES, tiles), math.prod(operands.q.shape[:-2])
    # a loop of two iterations costs more than it saves
    return Schedule(tiles, batch if batch <= 2 * heads else heads)


def _fit(scores: int, tiles: Tiles) -> int:
    """Count the tiles whose scores fit a budget of `scores` per core; at least 1."""
    return max(scores * CORES // math.prod(tiles), 1)


def _in_parts(
    compute: Callable[[AttentionOperands, Array | None], Array],
    operands: AttentionOperands,
    packed: Array | None,
    fit: int | None,
    axis: int = 0,
) -> Array:
    """Compute `fit` heads at a time (None: all at once), from this axis of the batch on.

    All axes stay, because XLA multiplies batches of one matrix faster than matrices.
    """
    batch = operands.q.shape[:-2]
    if fit is None or math.prod(batch) <= fit:
        return compute(operands, packed)
    count = batch[axis]
    most = max(fit // math.prod(batch[axis + 1 :]), 1)
    size = max(n for n in range(1, min(most, count) + 1) if count % n == 0)
    if size == count:
        return _in_parts(compute, operands, packed, fit, axis + 1)
    # operands shared by all heads stay outside the loop
    arrays = (*operands, packed)
    fixed = [x is None or x.shape[axis] != count for x in arrays]
    parts = [
        None if f or x is None else cut_up(x, axis - x.ndim, size)
        for x, f in zip(arrays, fixed, strict=True)
    ]

    def part(cut: Sequence[Any]) -> Array:
        pairs = zip(arrays, cut, strict=True)
        full: list[Any] = [own if x is None else x for own, x in pairs]
        return _in_parts(compute, AttentionOperands(*full[:-1]), full[-1], fit, axis + 1)

    out = lax.map(part, parts)
    return put_together(out, axis - len(batch) - 2, count)


def _pack_heads(operands: AttentionOperands, how: ScoreWeighing, schedule: Schedule) -> Array:
    """Compute `forward` for all heads."""
    tiles, heads = schedule
    return _in_parts(lambda own, _: forward(own, how, tiles), operands, None, heads)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _by_heads(operands: AttentionOperands, how: ScoreWeighing, schedule: Schedule) -> Array:
    return _pack_heads(operands, how, schedule)[..., :-1]


def _by_heads_saving(
    operands: AttentionOperands, how: ScoreWeighing, schedule: Schedule
) -> tuple[Array, tuple[AttentionOperands, Array]]:
    packed = _pack_heads(operands, how, schedule)
    return packed[..., :-1], (operands, packed)


def _by_heads_backward(
    how: ScoreWeighing, schedule: Schedule, saved: Any, of_out: Array
) -> tuple[AttentionOperands]:
    (operands, packed), (tiles, heads) = saved, schedule

    def again(operands: AttentionOperands) -> Array:
        return _in_parts(
            lambda own, known: _known_results(own, known, how, tiles), operands, packed, heads
        )

    return jax.vjp(again, operands)[1](of_out)


_by_heads.defvjp(_by_heads_saving, _by_heads_backward)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _known_results(
    operands: AttentionOperands, packed: Any, how: ScoreWeighing, tiles: Tiles
) -> Array:
    """Return results computed before, with the derivative by tiles."""
    return packed[..., :-1]


def _known_saving(
    operands: AttentionOperands, packed: Any, how: ScoreWeighing, tiles: Tiles
) -> tuple[Array, Any]:
    return packed[..., :-1], (operands, packed)


def _known_backward(
    how: ScoreWeighing, tiles: Tiles, saved: Any, of_out: Array
) -> tuple[AttentionOperands, Array]:
    operands, packed = saved
    (of_operands,) = backward(how, tiles, (operands, packed[..., :-1], packed[..., -1:]), of_out)
    return of_operands, jnp.zeros_like(packed)


_known_results.defvjp(_known_saving, _known_backward)
