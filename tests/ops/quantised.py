"""Samples of numbers quantized to steps of a scale."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import quantised as ops
from graphopt_tests.ops.base import f32, f64, sample

X = [[0.1, -2.3, 0.7], [1.2, -0.4, 3.0]]
TIES = [0.5, 1.5, -2.5, 9.0, -9.0]


def whole(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quantize to steps of a scale; ties round to even."""
    return np.clip(np.rint(127 * x / y), -128, 127)


SAMPLES = {
    ops.QuantizeLinear: [
        sample(f32(X), f32([[2.0]])).gives(whole).kinked(),
        sample(f32(X), f32([[1.0, 2.0, 4.0]])).gives(whole).kinked(),
        sample(f64(TIES), f64([7.0]), steps=7.0).gives(lambda x, y: [0, 2, -2, 7, -8]).kinked(),
        sample(f64(TIES), f64([7.0]), steps=7.0, round_type=ops.AWAY)
        .gives(lambda x, y: [1, 2, -3, 7, -7])
        .kinked(),
        sample(f32(X), f32([[2.0]]), round_type=ops.AWAY).kinked(),
        sample(f32([0.0, 0.0]), f32([0.0])).gives(lambda x, y: [0, 0]).kinked(),
    ],
    ops.DequantizeLinear: [
        sample(f32([[3, -128], [0, 127]]), f32([[2.0]])).gives(lambda x, y: x * y / 127),
        sample(f32([[3, -128], [0, 127]]), f32([[2.0], [0.5]])).gives(lambda x, y: x * y / 127),
        sample(f64([3.0, -7.0]), f64([2.0]), steps=7.0).gives(lambda x, y: x * y / 7),
    ],
}
