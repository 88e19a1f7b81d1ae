"""Samples of the losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.ops.loss import CrossEntropyWithSoftmax
from graphopt_tests.ops.activation import softmax
from graphopt_tests.ops.base import Array, Sample, bf16, f32, f64, i32, i64, sample


def losses(*operands: Any, **attrs: Any) -> Sample:
    return sample(*operands, **attrs).gradient_through(1)


def hard(p: Array, label: Array) -> tuple[Array, Array]:
    """Softmax and loss for probabilities [N, C] and labels [N]."""
    return p, -np.log(p[np.arange(len(label)), label])[:, None]


SAMPLES = {
    CrossEntropyWithSoftmax: [
        losses(f32(2, 3), i64([[2], [0]])).gives(lambda x, y: hard(softmax(x), y[:, 0])),
        losses(f32(2, 3), i32([1, 1])).gives(lambda x, y: hard(softmax(x), y)),
        losses(f64(2, 3, 2), i64([[1, 0], [2, 1]]), axis=1).gives(
            lambda x, y: (p := softmax(x, 1), -np.log(np.take_along_axis(p, y[:, None], 1)))
        ),
        losses(f32(2, 3), i64([[255], [0]]), ignore_index=255).gives(
            lambda x, y: (p := softmax(x), [[0], -np.log(p[1, :1])])
        ),
        losses(f32(2, 3), i64([[-100], [0]])).gives(
            lambda x, y: (p := softmax(x), [[0], -np.log(p[1, :1])])
        ),
        losses(f32(2, 3), f32([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]), soft_label=True).gives(
            lambda x, y: (p := softmax(x), -(y * np.log(p)).sum(1, keepdims=True))
        ),
        losses(f32([[0.2, 0.8], [0.5, 0.5]]), i64([[1], [0]]), use_softmax=False).gives(
            lambda p, y: hard(p, y[:, 0])
        ),
        losses(f32([[0, 1.0]]), f32([[0, 1.0]]), soft_label=True, use_softmax=False)
        .gives(lambda p, y: (p, [[0]]))
        .kinked(),
        losses(f32([[1e4, 0.0]]), i64([[1]])).gives(lambda x, y: ([[1, 0]], [[1e4]])),
        losses(f32(2, 2), i64([[7], [-1]]))
        .gives(lambda x, y: (softmax(x), [[np.nan], [np.nan]]))
        .kinked(),
        losses(bf16(0, 3), i64(0, 1)),
    ],
}
