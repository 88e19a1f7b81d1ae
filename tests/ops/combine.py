"""Samples of ops that combine several tensors."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.combine import Atan2, Kron, Lerp, Multiplex
from graphopt_tests.ops.base import f32, f64, i32, i64, sample

SAMPLES = {
    Atan2: [sample(f32(2, 3), f32(3)).gives(np.arctan2), sample(f64(2, 1), f64(1, 3))],
    Lerp: [
        sample(f32(2, 3), f32(2, 3), f32(1)).gives(lambda x, y, w: x + w * (y - x)),
        sample(f64(3), f64(2, 3), f64()).gives(lambda x, y, w: x + w * (y - x)),
    ],
    Multiplex: [
        sample([f32(3, 2), f32(3, 2)], i32([[1], [0], [1]])).gives(
            lambda xs, i: [xs[1][0], xs[0][1], xs[1][2]]
        ),
        sample([i64(2, 1), i64(2, 1)], i64([0, 1])).gives(lambda xs, i: [xs[0][0], xs[1][1]]),
    ],
    Kron: [
        sample(f32(2, 3), f32(3, 2)).gives(np.kron),
        sample(f32(2, 3), f32(2)).gives(np.kron),
        sample(i64(2), i64(2, 2)).gives(np.kron),
    ],
}
