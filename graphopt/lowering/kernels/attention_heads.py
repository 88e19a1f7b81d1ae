"""Attention of many heads: at once where sequences are short, else by tiles, a few heads at a time.

A CPU has the tiles of few heads in its caches, so it takes those one after the other; other devices
have more cores than a few heads keep busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.cores import CORES
from graphopt.lowering.kernels.attention import Array, Operands, Weighing, at_once
from graphopt.lowering.kernels.flash import (
    backward,
    cut_up,
    forward,
    put_together,
    tile_keys,
    tile_queries,
)

# queries and keys from which on tiles are faster on a CPU
LONG = 512
# scores of a tile that fit into the cache of a CPU core, with their temporaries
SCORES = 2**17


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
    every, fit = partial(_by_heads, how=how, fit=None), _heads_at_once(whole)
    # a batch that varies is a symbol here
    if not all(isinstance(n, int) for n in batch) or math.prod(batch) <= fit:
        return every(whole)
    return lax.platform_dependent(whole, cpu=partial(_by_heads, how=how, fit=fit), default=every)


def _heads_at_once(operands: Operands) -> int:
    """The number of heads whose tiles fit into the caches of a CPU."""
    return max(SCORES * CORES // (tile_queries(operands) * tile_keys(operands)), 1)


def _in_parts(
    compute: Callable[[Operands, Array | None], Array],
    operands: Operands,
    packed: Array | None,
    fit: int | None,
    axis: int = 0,
) -> Array:
    """`fit` heads after the other (None: all at once), from this axis of the batch on.

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
    # operands shared by all heads stay outside of the loop
    arrays = (*operands, packed)
    fixed = [x is None or x.shape[axis] != count for x in arrays]
    parts = [
        None if f or x is None else cut_up(x, axis - x.ndim, size)
        for x, f in zip(arrays, fixed, strict=True)
    ]

    def part(cut: Sequence[Any]) -> Array:
        pairs = zip(arrays, cut, strict=True)
        full: list[Any] = [own if x is None else x for own, x in pairs]
        return _in_parts(compute, Operands(*full[:-1]), full[-1], fit, axis + 1)

    out = lax.map(part, parts)
    return put_together(out, axis - len(batch) - 2, count)


def _packed(operands: Operands, how: Weighing, fit: int | None) -> Array:
    """The results of `forward` for all heads."""
    return _in_parts(lambda own, _: forward(own, how), operands, None, fit)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _by_heads(operands: Operands, how: Weighing, fit: int | None) -> Array:
    return _packed(operands, how, fit)[..., :-1]


def _by_heads_saving(
    operands: Operands, how: Weighing, fit: int | None
) -> tuple[Array, tuple[Operands, Array]]:
    packed = _packed(operands, how, fit)
    return packed[..., :-1], (operands, packed)


def _by_heads_backward(
    how: Weighing, fit: int | None, saved: Any, of_out: Array
) -> tuple[Operands]:
    operands, packed = saved

    def again(operands: Operands) -> Array:
        return _in_parts(lambda own, known: _known(own, known, how), operands, packed, fit)

    return jax.vjp(again, operands)[1](of_out)


_by_heads.defvjp(_by_heads_saving, _by_heads_backward)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _known(operands: Operands, packed: Any, how: Weighing) -> Array:
    """Results computed before, as a function of their inputs."""
    return packed[..., :-1]


def _known_saving(operands: Operands, packed: Any, how: Weighing) -> tuple[Array, Any]:
    return packed[..., :-1], (operands, packed)


def _known_backward(how: Weighing, saved: Any, of_out: Array) -> tuple[Operands, Array]:
    operands, packed = saved
    (of_operands,) = backward(how, (operands, packed[..., :-1], packed[..., -1:]), of_out)
    return of_operands, jnp.zeros_like(packed)


_known.defvjp(_known_saving, _known_backward)
