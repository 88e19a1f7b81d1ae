"""Samples of the matrix products."""

from __future__ import annotations

import numpy as np

from graphopt.ir.ops.linear import Matmul
from graphopt_tests.ops.base import bf16, f32, f64, i64, sample

SAMPLES = {
    Matmul: [
        sample(f32(2, 3), f32(3, 4)).gives(np.matmul),
        sample(f32(3, 2), f32(4, 3), transpose_x=True, transpose_y=True).gives(
            lambda x, y: x.T @ y.T
        ),
        sample(f32(3), f32(3), transpose_x=True).gives(np.matmul),
        sample(f32(3), f32(2, 3, 4)).gives(np.matmul),
        sample(f64(2, 3, 4), f64(4), transpose_y=True).gives(np.matmul),
        sample(f32(2, 1, 2, 3), f32(4, 3, 2)).gives(np.matmul),
        sample(bf16(2, 3), bf16(3, 2)).gives(np.matmul),
        sample(i64(2, 3), i64(3, 2)).gives(np.matmul),
        sample(f32(2, 0), f32(0, 3)).gives(np.matmul),
    ],
}
