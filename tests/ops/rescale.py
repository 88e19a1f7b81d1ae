"""Samples of division by a norm or by gathered statistics."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.rescale import DataNorm, Renorm, SpectralNorm
from graphopt_tests.ops.base import f32, f64, sample

WEIGHT = [[3.0, 0.0], [0.0, 1.0]]

SAMPLES = {
    SpectralNorm: [
        sample(f64(WEIGHT), f64([1.0, 0.0]), f64([0.0, 1.0])).gives(lambda w, u, v: w / 3).kinked(),
        sample(f32(2, 3, 2), f32(3), f32(4), dim=1, power_iters=40)
        .gives(lambda w, u, v: w / np.linalg.norm(w.transpose(1, 0, 2).reshape(3, 4), 2))
        .kinked(),
        sample(f64(2, 2), f64(2), f64(2), power_iters=0)
        .gives(lambda w, u, v: w / (u @ w @ v))
        .kinked(),
    ],
    Renorm: [
        sample(f64([[3.0, 4.0], [0.3, 0.4]]), p=2.0, axis=0, max_norm=1.0).gives(
            lambda x: [x[0] / 5, x[1]]
        ),
        sample(f32([[3.0, 1.0], [0.0, 0.0]]), p=1.0, axis=-1, max_norm=2.0)
        .gives(lambda x: x * [2 / 3, 1])
        .kinked(),
    ],
    DataNorm: [
        sample(f64(3, 2), f64([4.0, 4.0]), f64([2.0, 4.0]), f64([1.0, 16.0]))
        .gives(lambda x, n, s, q: ((x - s / n) * np.sqrt(n / q), s / n, np.sqrt(n / q)))
        .kinked(),
        sample(f32(3, 2), f32([1.0, 1.0]), f32(2), f32([1.0, 1.0]), f32(2), f32(2)).kinked(),
    ],
}
