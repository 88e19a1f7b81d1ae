"""Losses in JAX."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy.special import xlogy

from graphopt.ir.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.types import normalize_axis
from graphopt.lowering.ops.activation import log_softmax
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(CrossEntropyWithSoftmax)
def cross_entropy_with_softmax(
    logits: Array,
    label: Array,
    axis: int,
    soft_label: bool,
    use_softmax: bool,
    ignore_index: int,
) -> tuple[Array, Array]:
    x, axis = wide(logits), normalize_axis(axis, logits.ndim)
    # the logarithm of the probabilities, or the probabilities themselves without `use_softmax`
    scores = log_softmax(x, axis=axis) if use_softmax else x
    if soft_label:
        terms = wide(label) * scores if use_softmax else xlogy(wide(label), scores)
        loss = -jnp.sum(terms, axis, keepdims=True)
    else:
        loss = _hard_loss(scores, label, axis, use_softmax, ignore_index)
    softmax = lax.exp(scores) if use_softmax else scores
    # as in Paddle, the gradient flows through the loss alone
    return lax.stop_gradient(softmax.astype(logits.dtype)), loss.astype(logits.dtype)


def _hard_loss(
    scores: Array, label: Array, axis: int, use_softmax: bool, ignore_index: int
) -> Array:
    classes = scores.shape[axis]
    label = jnp.expand_dims(label, axis) if label.ndim < scores.ndim else label
    label = label.astype(np.int64)
    ignored = label == ignore_index
    # below zero would count from the end; past the end reads nan
    index = jnp.where(label < 0, classes, label)
    score = jnp.take_along_axis(scores, jnp.where(ignored, 0, index), axis, mode="fill")
    loss = -score if use_softmax else -lax.log(score)
    return jnp.where(ignored, jnp.zeros((), loss.dtype), loss)
