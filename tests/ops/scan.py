"""Samples of running results along an axis."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.scan import Cummax, Cummin, Logcumsumexp
from graphopt_tests.ops.base import bf16, f32, f64, i64, sample

SAMPLES = {
    Logcumsumexp: [
        sample(f32(2, 3)).gives(lambda x: np.logaddexp.accumulate(x, -1)),
        sample(f64(2, 3), flatten=True).gives(lambda x: np.logaddexp.accumulate(x.ravel())),
        sample(f64(3, 2), axis=0, reverse=True).gives(
            lambda x: np.logaddexp.accumulate(x[::-1], 0)[::-1]
        ),
        sample(f32([1.0, 2.0]), exclusive=True).gives(lambda x: [-np.inf, 1]).kinked(),
        sample(bf16(2, 3)),
    ],
    Cummax: [
        sample(f32([[3.0, 1.0, 4.0], [2.0, 6.0, 5.0]])).gives(
            lambda x: (np.maximum.accumulate(x, -1), [[0, 0, 2], [0, 1, 1]])
        ),
        sample(i64([1, 1, 0]), axis=0, dtype="int32").gives(lambda x: ([1, 1, 1], [0, 1, 1])),
        sample(f64([1.0, np.nan, 2.0]), axis=0)
        .gives(lambda x: ([1, np.nan, np.nan], [0, 1, 1]))
        .kinked(),
    ],
    Cummin: [
        sample(f64([[3.0, 1.0, 4.0], [2.0, 6.0, 5.0]]), axis=-2).gives(
            lambda x: (np.minimum.accumulate(x, 0), [[0, 0, 0], [1, 0, 0]])
        ),
    ],
}
