"""Metrics of classifiers."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import metric as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.Accuracy)
def accuracy(indices: Array, label: Array) -> tuple[Array, Array, Array]:
    rows = indices.shape[0]
    correct = np.sum(np.any(indices == np.reshape(label, (rows, 1)), axis=-1))
    return correct / max(rows, 1) * 1.0, correct, np.asarray(rows)


@rule(ops.Auc)
def auc(
    x: Array, label: Array, stat_pos: Array, stat_neg: Array, num_thresholds: int, slide_steps: int
) -> tuple[Array, Array, Array]:
    scores = x[:, -1].astype(np.float32)  # Paddle computes buckets in float32
    known = (scores >= 0) & (scores <= 1)
    buckets = (scores * np.float32(num_thresholds))[known].astype(np.int64)
    labels = np.reshape(label, -1)[known]
    totals: list[Array] = []
    kept: list[Array] = []
    for stat, chosen in ((stat_pos, labels > 0), (stat_neg, labels == 0)):
        total = np.bincount(buckets[chosen], minlength=num_thresholds + 1)
        if slide_steps:
            # the counts of the latest batches, their sum, and the number of batches so far
            flat = np.reshape(stat, -1)
            rows = np.reshape(flat[:-1].copy(), (slide_steps + 1, num_thresholds + 1))
            rows[flat[-1] % slide_steps] = total
            total = rows[-1] = np.sum(rows[:-1], 0)
            kept.append(np.reshape(np.append(rows, flat[-1] + 1), stat.shape))
        else:
            total = np.reshape(stat, -1) + total
            kept.append(np.reshape(total, stat.shape))
        totals.append(total)
    # the share of pairs in which the positive scores higher; ties count half
    positive, negative = (total.astype(np.float64) for total in totals)
    above = np.sum(positive) - np.cumsum(positive)
    pairs, all_pairs = (
        np.sum(negative * (above + positive / 2)),
        np.sum(positive) * np.sum(negative),
    )
    area = pairs / all_pairs if all_pairs else pairs
    return np.asarray(area if np.all(known) else np.nan), *kept
