"""softmax(scale * q k^T + mask) v, at once or by blocks: the kernel of the attention ops.

At once, it needs the whole matrix of scores, and several of them for its derivative. By blocks it
never has more than a tile of it: see `flash.py` and `attention_heads.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array


class ScoreWeighing(NamedTuple):
    """Parameters of the work between the two products; hashable, so that JAX does not trace them.

    `fill` is the score where a boolean mask is false. `kept` is the factor of the weights that
    dropout keeps.
    """

    scale: float
    fill: float
    kept: float


class AttentionOperands(NamedTuple):
    """q [..., t, d], k [..., s, d], v [..., s, e]; additions to the scores; kept weights."""

    q: Array
    k: Array
    v: Array
    mask: Array | None
    keep: Array | None


def at_once(operands: AttentionOperands, how: ScoreWeighing) -> Array:
    """Compute attention by the plain formula, [..., t, e]."""
    scores = scores_of(operands, how)
    # no gradient through the maximum: the softmax does not depend on it
    top = jnp.max(lax.stop_gradient(scores), -1, keepdims=True, initial=-jnp.inf)
    exponential = lax.exp(scores - top)
    weights = exponential / jnp.sum(exponential, -1, keepdims=True)
    return jnp.matmul(drop_weights(weights, operands.keep, how), operands.v)


def scores_of(operands: AttentionOperands, how: ScoreWeighing) -> Array:
    """Compute scale * q k^T + mask."""
    q = operands.q * number(how.scale, operands.q)
    scores = jnp.matmul(q, operands.k.mT)
    mask = operands.mask
    if mask is not None and mask.dtype == np.bool_:
        return jnp.where(mask, scores, number(how.fill, scores))
    return scores if mask is None else scores + mask


def number(value: float, like: Array) -> np.ndarray[Any, Any]:
    """Convert a number to the dtype of an array."""
    return np.asarray(value, like.dtype)


def drop_weights(weights: Array, keep: Array | None, how: ScoreWeighing) -> Array:
    """Apply dropout to the weights."""
    if how.kept != 1:
        weights = weights * number(how.kept, weights)
    return weights if keep is None else jnp.where(keep, weights, jnp.zeros((), weights.dtype))
