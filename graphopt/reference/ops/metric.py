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
