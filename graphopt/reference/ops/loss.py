"""Losses."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import loss as ops
from graphopt.reference.derivatives import hold
from graphopt.reference.ops.activation import log_one_plus_exp, log_softmax
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def _pick_elements(x: Array, label: Array, axis: int) -> Array:
    """Pick the elements along an axis by label; nan where a label is out of range."""
    inside = (label >= 0) & (label < x.shape[axis])
    found = np.take_along_axis(x, np.where(inside, label, 0), axis)
    return np.where(inside, found, np.nan)


@rule(ops.CrossEntropyWithSoftmax)
def cross_entropy_with_softmax(
    logits: Array,
    label: Array,
    axis: int,
    soft_label: bool,
    use_softmax: bool,
    ignore_index: int,
) -> tuple[Array, Array]:
    axis %= logits.ndim
    scores = log_softmax(logits, axis) if use_softmax else logits
    if soft_label:
        counts = (label != 0) | np.isnan(scores)
        logs = scores if use_softmax else np.log(np.where(counts, scores, 1.0))
        loss = -np.sum(label * logs, axis=axis, keepdims=True)
    else:
        numbers = np.expand_dims(label, axis) if label.ndim < logits.ndim else label
        counts = numbers != ignore_index
        score = _pick_elements(scores, np.where(counts, numbers, 0), axis)
        own = 0.0 - score if use_softmax else -np.log(score)  # a zero loss is 0, not -0
        loss = np.where(counts, own, 0.0)
    # only the loss has a gradient
    return hold(np.exp(scores) if use_softmax else scores), loss


@rule(ops.BinaryCrossEntropy)
def bce_loss(x: Array, label: Array) -> Array:
    # the logarithm is clipped at -100, where it has no gradient
    yes = np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), -100.0)
    no = np.where(x < 1, np.log1p(np.where(x < 1, -x, 0.0)), -100.0)
    return -label * np.maximum(yes, -100.0) - (1.0 - label) * np.maximum(no, -100.0)


@rule(ops.SigmoidCrossEntropy)
def sigmoid_cross_entropy(x: Array, label: Array, normalize: bool, ignore_index: int) -> Array:
    counts = label != ignore_index
    loss = np.where(counts, log_one_plus_exp(x) - x * label, 0.0)
    return loss / max(float(np.sum(counts)), 1.0) if normalize else loss


@rule(ops.HuberLoss)
def huber_loss(x: Array, y: Array, delta: float) -> tuple[Array, Array]:
    error = y - x
    size = np.where(error > 0, error, -error)  # for NaN, too, Paddle's derivative is delta
    small = size <= delta
    inner = np.where(small, error, 0.0)
    loss = np.where(small, 0.5 * inner * inner, delta * (size - 0.5 * delta))
    return loss, hold(error)


@rule(ops.KldivLoss)
def kldiv_loss(x: Array, target: Array, reduction: str, log_target: bool) -> Array:
    if log_target:
        loss = np.exp(target) * (target - x)
    else:
        positive = target > 0
        logs = np.log(np.where(positive, target, 1.0))
        loss = np.where(positive, target * (logs - x), 0.0)
    if reduction == "none":
        return loss
    count = {"mean": loss.size, "batchmean": loss.shape[0] if loss.ndim else 1}
    return np.sum(loss) / float(max(count.get(reduction, 1), 1))


@rule(ops.NllLoss)
def nll_loss(
    x: Array, label: Array, weight: Array | None, ignore_index: int, reduction: str
) -> tuple[Array, Array]:
    counts = label != ignore_index
    numbers = np.where(counts, label, 0)
    score = _pick_elements(x, numbers[:, None], 1)[:, 0]
    share = counts.astype(x.dtype)
    if weight is not None:
        inside = (numbers >= 0) & (numbers < x.shape[1])
        own = np.where(inside, np.take(weight, np.where(inside, numbers, 0), 0), np.nan)
        share = np.where(counts, own, 0.0)
    loss, total = np.where(counts, -score * share, 0.0), np.sum(share)
    if reduction == "none":
        return loss, hold(total)
    whole = np.sum(loss)
    if reduction == "mean":
        whole = whole / np.where(total == 0, 1.0, total)
    return whole, hold(total)
