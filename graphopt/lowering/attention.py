"""softmax(scale * q k^T + mask) v, at once or by rows; what the attention ops compute with.

At once it needs the whole matrix of scores, and several of them for its derivative. By rows it
goes over blocks of queries and forgets their scores, and the derivative computes them anew: the
same numbers, in less memory, and on a CPU in less time once the sequences are long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array
# queries and keys from which on rows are faster on a CPU, forward alone and with the derivative
LONG, LONG_DIFFERENTIATED = 1024, 512
BLOCK = 128


class Weighing(NamedTuple):
    """What happens between the products: hashable, so that it does not get traced.

    `fill` is the score where a boolean mask is false; `kept` what a weight that dropout keeps is
    multiplied by.
    """

    scale: float
    fill: float
    kept: float


class Operands(NamedTuple):
    """q [..., t, d], k [..., s, d], v [..., s, e]; what is added to the scores; what is kept."""

    q: Array
    k: Array
    v: Array
    mask: Array | None
    keep: Array | None


def attention(operands: Operands, how: Weighing) -> Array:
    """[..., t, e], in the dtype of the operands; leading dimensions broadcast."""
    if _sizes(operands) < LONG_DIFFERENTIATED:
        return at_once(operands, how)
    q, k, v, mask, keep = operands
    batch = jnp.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if mask is not None:
        batch = jnp.broadcast_shapes(batch, mask.shape[:-2])
        mask = mask.reshape((1,) * (len(batch) + 2 - mask.ndim) + mask.shape)
        columns = jnp.broadcast_shapes(mask.shape[-1:], k.shape[-2:-1])
        mask = jnp.broadcast_to(mask, (*mask.shape[:-1], *columns))
    q, k, v = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    return _by_rows(Operands(q, k, v, mask, keep), how)


def _sizes(operands: Operands) -> int:
    return min(operands.q.shape[-2], operands.k.shape[-2])


def at_once(operands: Operands, how: Weighing) -> Array:
    """The plain formula."""
    weights = _kept(_softmax(operands, how), operands.keep, how)
    return jnp.matmul(weights, operands.v)


def _softmax(operands: Operands, how: Weighing) -> Array:
    q = operands.q * _number(how.scale, operands.q)
    scores = jnp.matmul(q, operands.k.mT)
    mask = operands.mask
    if mask is not None and mask.dtype == np.bool_:
        scores = jnp.where(mask, scores, _number(how.fill, scores))
    elif mask is not None:
        scores = scores + mask
    # no gradient through the maximum: the softmax does not depend on it
    top = jnp.max(lax.stop_gradient(scores), -1, keepdims=True, initial=-jnp.inf)
    exponential = lax.exp(scores - top)
    return exponential / jnp.sum(exponential, -1, keepdims=True)


def _number(value: float, like: Array) -> np.ndarray[Any, Any]:
    return np.asarray(value, like.dtype)


def _kept(weights: Array, keep: Array | None, how: Weighing) -> Array:
    if how.kept != 1:
        weights = weights * _number(how.kept, weights)
    return weights if keep is None else jnp.where(keep, weights, jnp.zeros((), weights.dtype))


def _forward(operands: Operands, how: Weighing) -> Array:
    if _sizes(operands) < LONG:
        return at_once(operands, how)
    blocks = _blocks(operands)

    def block(part: tuple[Array, Array | None, Array | None]) -> Array:
        return at_once(_with_rows(operands, part), how)

    return _joined(lax.map(block, blocks), operands.q.shape[-2])


_by_rows = jax.custom_vjp(_forward, nondiff_argnums=(1,))


def _saving(operands: Operands, how: Weighing) -> tuple[Array, Operands]:
    return _forward(operands, how), operands


def _backward(how: Weighing, operands: Operands, gradient: Array) -> tuple[Operands]:
    """One pass over the blocks of queries: the scores again, then what each operand gets."""
    k, v, rows = operands.k, operands.v, operands.q.shape[-2]

    def block(sums: tuple[Array, Array, Any], part: Any) -> tuple[Any, Any]:
        of_k, of_v, of_mask = sums
        part, of_out = part
        here = _with_rows(operands, part)
        weights = _softmax(here, how)
        of_v += jnp.matmul(_kept(weights, here.keep, how).mT, of_out)
        of_weights = _kept(jnp.matmul(of_out, v.mT), here.keep, how)
        of_scores = weights * (of_weights - jnp.sum(weights * of_weights, -1, keepdims=True))
        of_rows = None
        if here.mask is not None and here.mask.dtype != np.bool_:
            shared = _sum_to(of_scores, here.mask.shape)
            of_mask, of_rows = (
                (of_mask, shared) if _has_rows(operands) else (of_mask + shared, None)
            )
        elif here.mask is not None:
            of_scores = jnp.where(here.mask, of_scores, jnp.zeros((), of_scores.dtype))
        of_scores = of_scores * _number(how.scale, of_scores)
        of_k += jnp.matmul(of_scores.mT, here.q)
        return (of_k, of_v, of_mask), (jnp.matmul(of_scores, k), of_rows)

    mask = operands.mask
    start = None if mask is None or _has_rows(operands) else jnp.zeros(mask.shape, v.dtype)
    zeros = (jnp.zeros_like(k), jnp.zeros_like(v), start)
    parts = (_blocks(operands), _cut(gradient))
    (of_k, of_v, of_mask), (of_q, of_rows) = lax.scan(block, zeros, parts)
    if mask is not None and mask.dtype == np.bool_:
        of_mask = _nothing(mask)
    elif mask is not None and _has_rows(operands):
        of_mask = _joined(of_rows, rows)
    of_keep = None if operands.keep is None else _nothing(operands.keep)
    return (Operands(_joined(of_q, rows), of_k, of_v, of_mask, of_keep),)


_by_rows.defvjp(_saving, _backward)


def _nothing(array: Array) -> Any:
    """The gradient of a boolean array."""
    return np.zeros(array.shape, jax.dtypes.float0)


def _has_rows(operands: Operands) -> bool:
    """True when the mask has a row for each query."""
    return operands.mask is not None and operands.mask.shape[-2] != 1


def _blocks(operands: Operands) -> tuple[Array, Array | None, Array | None]:
    """q, mask and keep in blocks of queries along a new first axis, those that have rows."""
    # a row that only fills up the last block is unmasked, so that its softmax is a number
    mask = _cut(operands.mask, 1) if _has_rows(operands) else None
    return _cut(operands.q), mask, None if operands.keep is None else _cut(operands.keep)


def _with_rows(operands: Operands, part: tuple[Array, Array | None, Array | None]) -> Operands:
    q, mask, keep = part
    return operands._replace(q=q, mask=operands.mask if mask is None else mask, keep=keep)


def _cut(array: Any, filling: int = 0) -> Array:
    """[..., t, n] as [blocks, ..., BLOCK, n]."""
    *batch, rows, columns = array.shape
    count = -(-rows // BLOCK)
    edges = [(0, 0)] * len(batch) + [(0, count * BLOCK - rows), (0, 0)]
    filled = jnp.pad(array, edges, constant_values=filling)
    return jnp.moveaxis(filled.reshape(*batch, count, BLOCK, columns), -3, 0)


def _joined(blocks: Array, rows: int) -> Array:
    """The inverse of `_cut`."""
    array = jnp.moveaxis(blocks, 0, -3)
    return array.reshape(*array.shape[:-3], -1, array.shape[-1])[..., :rows, :]


def _sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the axes that are 1 in `shape`."""
    axes = [i for i, (a, b) in enumerate(zip(array.shape, shape, strict=True)) if a != b]
    return jnp.sum(array, axes, keepdims=True)
