"""Samples of the metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.metric import Accuracy, Auc
from graphopt_tests.ops.base import Array, f32, f64, i32, i64, sample

SCORES = f32([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5], [0.2, 0.8]])
BINARY = i64([[0], [1], [1], [0]])


def whole(x: Array, label: Array, pos: Array, neg: Array) -> tuple[Any, ...]:
    """Expect two of the four pairs of a positive and a negative in order, by four buckets."""
    return (
        np.array(2 / 4),
        pos + np.array([[0, 0, 2, 0, 0]]),
        neg + np.array([[1, 0, 0, 1, 0]]),
    )


def sliding(x: Array, label: Array, pos: Array, neg: Array) -> tuple[Any, ...]:
    """Replace the one row of counts and its sum, and advance the batch number."""
    hits, misses = [0, 0, 2, 0, 0], [1, 0, 0, 1, 0]
    return np.array(2 / 4), np.array([*hits, *hits, 3]), np.array([*misses, *misses, 3])


BEFORE = i64([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2])
NOTHING = i64([[0, 0, 0, 0, 0]])


SAMPLES = {
    Auc: [
        sample(SCORES, BINARY, NOTHING, NOTHING, num_thresholds=4, slide_steps=0)
        .gives(whole)
        .kinked(),
        sample(SCORES, BINARY, BEFORE, BEFORE, num_thresholds=4, slide_steps=1)
        .gives(sliding)
        .kinked(),
    ],
    Accuracy: [
        sample(f32(3, 2), i64([[0, 1], [1, 2], [2, 0]]), i64([[1], [0], [2]])).gives(
            lambda x, i, label: (2 / 3, 2, 3)
        ),
        sample(f64(2, 1), i64([[0], [1]]), i32([0, 1])).gives(lambda x, i, label: (1, 2, 2)),
        sample(f32(0, 1), i64(0, 1), i64(0, 1)).gives(lambda x, i, label: (0, 0, 0)),
    ],
}
