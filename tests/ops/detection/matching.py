"""Samples of the ops that match boxes with objects, as Paddle 1.8.5 computes them."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.matching import (
    BipartiteMatch,
    MineHardExamples,
    TargetAssign,
)
from graphopt_tests.ops.base import f32, f64, i32, i64, sample

# objects of three images: two, none, one
NEAR = [[0.9, 0.6, 0.0, 0.5], [0.8, 0.1, 0.0, 0.5], [0.2, 0.2, 0.7, 0.6]]
LENGTHS = [2, 0, 1]
MATCHES = [[0, -1, 1, -1], [-1] * 4, [-1, 0, -1, 0]]


def _assigned(x: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray]:
    """Gather the rows that MATCHES assigns; an object of the third image is row 2."""
    out = np.full((3, 4, x.shape[-1]), value, x.dtype)
    weight = np.zeros((3, 4, 1), "float32")
    for image, box, row in ((0, 0, 0), (0, 2, 1), (2, 1, 2), (2, 3, 2)):
        out[image, box] = x[row] if x.ndim == 2 else x[row, box % x.shape[1]]
        weight[image, box] = 1
    return out, weight


SAMPLES = {
    BipartiteMatch: [
        sample(f32(NEAR), i64(LENGTHS))
        .gives(
            lambda *_: (
                [[0, -1, -1, 1], [-1] * 4, [-1, -1, 0, -1]],
                [[0.9, 0, 0, 0.5], [0] * 4, [0, 0, 0.7, 0]],
            )
        )
        .kinked(),
        sample(f32(NEAR), i64(LENGTHS), match_type="per_prediction", dist_threshold=0.5)
        .gives(
            lambda *_: (
                [[0, 0, -1, 1], [-1] * 4, [-1, -1, 0, 0]],
                [[0.9, 0.6, 0, 0.5], [0] * 4, [0, 0, 0.7, 0.6]],
            )
        )
        .kinked(),
        sample(f64(NEAR), None).gives(lambda *_: ([[0, -1, 2, 1]], [[0.9, 0, 0.7, 0.5]])).kinked(),
        sample(f32(0, 2), i64([0])).gives(lambda *_: ([[-1, -1]], [[0, 0]])).kinked(),
    ],
    TargetAssign: [
        sample(f32(3, 4, 2), i64(LENGTHS), i32(MATCHES), None, None, mismatch_value=7.0).gives(
            lambda x, *_: _assigned(x, 7.0)
        ),
        sample(f64(3, 1, 2), i64(LENGTHS), i32(MATCHES), None, None).gives(
            lambda x, *_: _assigned(x, 0.0)
        ),
        sample(i32(3, 1), i64(LENGTHS), i32(MATCHES), i32([[1], [0]]), i64([1, 1, 0])).gives(
            lambda x, *_: (
                _assigned(x, 0)[0],
                _assigned(x, 0)[1]
                + np.eye(4)[[[1], [0], [1]]].swapaxes(1, 2) * [[[1]], [[1]], [[0]]],
            )
        ),
    ],
    MineHardExamples: [
        sample(
            f32([[0.1, 0.9, 0.2, 0.5], [0.3] * 4]),
            None,
            i32([[0, -1, -1, -1], [-1] * 4]),
            f32([[0.9, 0.2, 0.1, 0.1], [0.0] * 4]),
            neg_pos_ratio=2.0,
        )
        .gives(lambda c, _, m, d: ([[0, 1, 0, 1], [0] * 4], m))
        .kinked(),
        sample(
            f32([[0.1, 0.9, 0.2, 0.5]]),
            f32([[0.0, 0.0, 0.9, 0.1]]),
            i32([[0, 1, -1, -1]]),
            f32([[0.9, 0.8, 0.1, 0.1]]),
            sample_size=2,
            mining_type="hard_example",
        )
        .gives(lambda *_: ([[0, 0, 1, 0]], [[-1, 1, -1, -1]]))
        .kinked(),
    ],
}
