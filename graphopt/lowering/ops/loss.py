"""Losses in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy.special import xlogy

from graphopt.ir.dialect.ops import loss as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.lowering.ops.activation import floor_shifted, log_softmax
from graphopt.lowering.ops.base import Array, constant, wide
from graphopt.lowering.registry import lowers


@lowers(ops.CrossEntropyWithSoftmax)
def cross_entropy_with_softmax(
    logits: Array,
    label: Array,
    axis: int,
    soft_label: bool,
    use_softmax: bool,
    ignore_index: int,
) -> tuple[Array, Array]:
    x, axis = wide(logits), normalize_axis(axis, logits.ndim)
    # log-probabilities; without `use_softmax`, probabilities
    scores = log_softmax(x, axis=axis) if use_softmax else x
    if soft_label and use_softmax:
        loss = _of_shares(x, wide(label), axis)
    elif soft_label:
        loss = -jnp.sum(xlogy(wide(label), scores), axis, keepdims=True)
    else:
        index, ignored = _classes(label, x, axis, ignore_index)
        loss = (_of_logits if use_softmax else _of_probabilities)(x, index, axis)
        loss = jnp.where(ignored, jnp.zeros((), loss.dtype), loss)
    softmax = lax.exp(scores) if use_softmax else scores
    # as in Paddle, only the loss has a gradient
    return lax.stop_gradient(softmax.astype(logits.dtype)), loss.astype(logits.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _of_shares(x: Array, shares: Array, axis: int) -> Array:
    """Compute -log softmax(x), weighted by the shares of the classes."""
    return -jnp.sum(shares * log_softmax(x, axis=axis), axis, keepdims=True)


@_of_shares.defjvp
def _of_shares_tangent(axis: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Differentiate as Paddle does: the probabilities less the shares, whatever their sum."""
    x, shares = primals
    scores = log_softmax(x, axis=axis)
    moved = (lax.exp(scores) - shares) * tangents[0] - scores * tangents[1]
    return _of_shares(x, shares, axis), jnp.sum(moved, axis, keepdims=True)


def _classes(label: Array, x: Array, axis: int, ignore_index: int) -> tuple[Array, Array]:
    """Return the class numbers, with a 1 at the class axis, and a mask of ignored labels."""
    label = jnp.expand_dims(label, axis) if label.ndim < x.ndim else label
    label = label.astype(np.int64)
    ignored = label == ignore_index
    # A negative label would count from the end. A label past the end reads NaN; JAX cuts it to 32
    # bits.
    size = x.shape[axis]
    index = jnp.where((label < 0) | (label > size), size, label)
    return jnp.where(ignored, 0, index), ignored


def _of_probabilities(p: Array, index: Array, axis: int) -> Array:
    return -lax.log(jnp.take_along_axis(p, index, axis, mode="fill"))


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _of_logits(x: Array, index: Array, axis: int) -> Array:
    """Compute -log softmax(x) at the classes, without the logarithms of all probabilities."""
    top, log_sum = _log_sum(x, axis)
    # from the logits themselves: XLA would store the operand of a gather
    return log_sum - floor_shifted(jnp.take_along_axis(x, index, axis, mode="fill") - top)


def _log_sum(x: Array, axis: int) -> tuple[Array, Array]:
    """Compute the maximum, and the logarithm of the sum of exponentials of x less it."""
    top = jnp.max(lax.stop_gradient(x), axis, keepdims=True, initial=-jnp.inf)
    return top, lax.log(jnp.sum(lax.exp(x - top), axis, keepdims=True))


@_of_logits.defjvp
def _of_logits_tangent(axis: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Differentiate as the probabilities, less one at the class; XLA fuses these ops.

    By JAX's rules the derivative would be summed up from parts as large as the logits.
    """
    x, index = primals
    top, log_sum = _log_sum(x, axis)
    # not the `x - top` of the sum: XLA would store it for both uses
    p = lax.exp(x - (top + 0 * log_sum) - log_sum)
    classes = lax.broadcasted_iota(np.int32, x.shape, axis)
    slope = jnp.where(classes == index.astype(np.int32), p - 1, p)
    moved = jnp.sum(slope * tangents[0], axis, keepdims=True)
    return _of_logits(x, index, axis), jnp.where(index < x.shape[axis], moved, 0)


@lowers(ops.BinaryCrossEntropy)
def bce_loss(x: Array, label: Array) -> Array:
    p, y = wide(x), wide(label)
    bound = constant(-100, p.dtype)
    # no gradient where the logarithm is clipped
    yes = jnp.where(p > 0, lax.log(jnp.where(p > 0, p, 1)), bound)
    no = jnp.where(p < 1, lax.log1p(jnp.where(p < 1, -p, 0)), bound)
    loss = -y * lax.max(yes, bound) - (1 - y) * lax.max(no, bound)
    return loss.astype(x.dtype)


@lowers(ops.SigmoidCrossEntropy)
def sigmoid_cross_entropy(x: Array, label: Array, normalize: bool, ignore_index: int) -> Array:
    scores, y = wide(x), wide(label)
    loss = jnp.logaddexp(scores, 0) - scores * y
    counts = y != ignore_index
    loss = jnp.where(counts, loss, 0)
    if normalize:
        loss = loss / jnp.maximum(jnp.sum(counts.astype(loss.dtype)), 1)
    return loss.astype(x.dtype)


@lowers(ops.HuberLoss)
def huber_loss(x: Array, y: Array, delta: float) -> tuple[Array, Array]:
    error = wide(y) - wide(x)
    size = lax.abs(error)
    small = size <= delta
    # the square of an error beyond delta may overflow
    inner = jnp.where(small, error, 0)
    loss = jnp.where(small, 0.5 * lax.square(inner), delta * (size - 0.5 * delta))
    return loss.astype(x.dtype), lax.stop_gradient(error.astype(x.dtype))


@lowers(ops.KldivLoss)
def kldiv_loss(x: Array, target: Array, reduction: str, log_target: bool) -> Array:
    scores, wanted = wide(x), wide(target)
    positive = wanted > 0
    if log_target:
        loss = lax.exp(wanted) * (wanted - scores)
    else:
        loss = jnp.where(positive, wanted * (lax.log(jnp.where(positive, wanted, 1)) - scores), 0)
    if reduction != "none":
        total = jnp.sum(loss)
        count = {"mean": loss.size, "batchmean": loss.shape[0] if loss.ndim else 1}
        loss = total / max(count.get(reduction, 1), 1)
    return loss.astype(x.dtype)


@lowers(ops.NllLoss)
def nll_loss(
    x: Array, label: Array, weight: Array | None, ignore_index: int, reduction: str
) -> tuple[Array, Array]:
    scores, classes = wide(x), x.shape[1]
    kept = label != ignore_index
    # a negative label would count from the end; a label past the end reads NaN
    index = jnp.where(kept, jnp.where(label < 0, classes, label), 0).astype(np.int64)
    score = jnp.take_along_axis(scores, index[:, None], 1, mode="fill")[:, 0]
    share = jnp.ones((), scores.dtype)
    if weight is not None:
        share = jnp.take(wide(weight), index, 0, mode="fill")
    share = jnp.where(kept, share, 0)
    loss, total = jnp.where(kept, -score * share, 0), jnp.sum(share)
    if reduction != "none":
        loss = jnp.sum(loss)
        loss = (
            jnp.where(total == 0, 0, loss / jnp.where(total == 0, 1, total))
            if (reduction == "mean")
            else loss
        )
    return loss.astype(x.dtype), lax.stop_gradient(total.astype(x.dtype))


# the bound of decisions, as in Paddle; the gradient ignores it
CLIP = 40.0


@lowers(ops.HsigmoidLoss)
def hsigmoid_loss(
    x: Array,
    w: Array,
    label: Array,
    path: Array | None,
    code: Array | None,
    bias: Array | None,
    num_classes: int,
) -> tuple[Array, Array]:
    label = label.reshape(-1)
    if path is None or code is None:
        # the low bits of label + num_classes, last one first, choose the branch at each node
        step = np.arange((num_classes - 1).bit_length(), dtype=np.int64)
        number = label.astype(np.int64)[:, None] + num_classes
        node, decision = (number >> (step + 1)) - 1, (number >> step) & 1
        known = (label >= 0) & (label < num_classes)
        # an invalid label reads NaN
        node = jnp.where(known[:, None], node, w.shape[0])
    else:
        node, decision = path.astype(np.int64), code
    on_path = jnp.cumprod(node >= 0, axis=1, dtype=np.int32) > 0
    node = jnp.where(on_path, node, 0)
    rows = jnp.take(wide(w), node, 0, mode="fill")
    score = jnp.sum(rows * wide(x)[:, None, :], -1)
    if bias is not None:
        score = score + jnp.take(wide(bias).reshape(-1), node, 0, mode="fill")
    score = jnp.where(on_path, score, 0)
    score = score + lax.stop_gradient(jnp.clip(score, -CLIP, CLIP) - score)
    soft = jnp.logaddexp(score, 0)
    taken = jnp.where(on_path & (decision != 0), score, 0)
    out = jnp.sum(soft, 1, keepdims=True) - jnp.sum(taken, 1, keepdims=True)
    return out.astype(x.dtype), lax.stop_gradient(soft.astype(x.dtype))
