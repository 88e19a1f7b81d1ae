"""Samples of the matrix products and other maps with a weight."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.linear import Bilinear, Kron, Matmul, RowConv
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
    Bilinear: [
        sample(f32(2, 3), f32(2, 4), f32(5, 3, 4)).gives(
            lambda x, y, w: np.einsum("ni,kij,nj->nk", x, w, y)
        ),
        sample(f64(2, 1), f64(2, 2), f64(1, 1, 2), f64(1, 1)).gives(
            lambda x, y, w, b: np.einsum("ni,kij,nj->nk", x, w, y) + b
        ),
    ],
    RowConv: [
        sample(f32(2, 3, 2), f32(2, 2)).gives(
            lambda x, w: x * w[0] + np.concatenate([x[:, 1:], 0 * x[:, :1]], 1) * w[1]
        ),
        sample(f64(1, 1, 2), f64(3, 2)).gives(lambda x, w: x * w[0]),
    ],
    Kron: [
        sample(f32(2, 3), f32(3, 2)).gives(np.kron),
        sample(f32(2, 3), f32(2)).gives(np.kron),
        sample(i64(2), i64(2, 2)).gives(np.kron),
    ],
}
