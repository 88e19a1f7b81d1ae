"""Samples of the elementary functions."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops.elementary import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Ceil,
    Cos,
    Cosh,
    Digamma,
    Erfinv,
    Expm1,
    Floor,
    Lgamma,
    Log1p,
    Log2,
    Log10,
    Logit,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Stanh,
    Tan,
    Trunc,
)
from graphopt_tests.ops.base import bf16, c64, f32, f64, i32, i64, sample

SAMPLES = {
    Sin: [sample(f32(2, 3)).gives(np.sin), sample(c64([1 + 2j])).gives(np.sin), sample(f64())],
    Cos: [sample(f32(2, 3)).gives(np.cos), sample(bf16(0, 3))],
    Tan: [sample(f32(2, 3) / 2).gives(np.tan)],
    Asin: [
        sample(f32(2, 3) / 3).gives(np.arcsin),
        sample(f32([1.0, 2.0])).gives(lambda x: [np.pi / 2, np.nan]).kinked(),
    ],
    Acos: [sample(f32(2, 3) / 3).gives(np.arccos)],
    Atan: [sample(f32(2, 3)).gives(np.arctan)],
    Sinh: [sample(f32(2, 3)).gives(np.sinh)],
    Cosh: [sample(f32(2, 3)).gives(np.cosh)],
    Asinh: [sample(f32(2, 3)).gives(np.arcsinh)],
    Acosh: [sample(1.25 + abs(f32(2, 3))).gives(np.arccosh)],
    Atanh: [sample(f32(2, 3) / 3).gives(np.arctanh)],
    Log2: [
        sample(abs(f32(2, 3))).gives(np.log2),
        sample(f32([8.0, 0.0])).gives(lambda x: [3, -np.inf]).kinked(),
    ],
    Log10: [sample(abs(f32(2, 3))).gives(np.log10)],
    Log1p: [sample(abs(f32(2, 3))).gives(np.log1p), sample(f64([1e-12])).gives(np.log1p)],
    Expm1: [sample(f32(2, 3)).gives(np.expm1), sample(f64([1e-12])).gives(np.expm1)],
    Reciprocal: [
        sample(f32(2, 3)).gives(np.reciprocal),
        sample(f32([0.0])).gives(lambda x: [np.inf]).kinked(),
    ],
    Stanh: [
        sample(f32(2, 3)).gives(lambda x: 1.7159 * np.tanh(0.67 * x)),
        sample(f64(3), scale_a=1.0, scale_b=-2.0).gives(lambda x: -2 * np.tanh(x)),
    ],
    Logit: [
        sample(abs(f32(2, 3)) / 3).gives(lambda x: np.log(x / (1 - x))),
        sample(f32([0.0, 0.5, 2.0]), eps=0.25)
        .gives(lambda x: [-math.log(3), 0, math.log(3)])
        .kinked(),
        sample(f64([0.25, 2.0]), eps=0.0).gives(lambda x: [-math.log(3), np.nan]).kinked(),
    ],
    Erfinv: [sample(f32([0.5, -0.25])).gives(lambda x: [0.4769362762, -0.2253120550])],
    Lgamma: [
        sample(abs(f32(2, 3))).gives(np.vectorize(math.lgamma)),
        sample(f32([-0.5])).gives(np.vectorize(math.lgamma)),
    ],
    Digamma: [sample(f32([1.0, 0.5])).gives(lambda x: [-0.5772156649, -1.9635100260])],
    Floor: [sample(f32(2, 3)).gives(np.floor), sample(f32([-0.5, 2.0])).gives(np.floor).kinked()],
    Ceil: [sample(f32(2, 3)).gives(np.ceil)],
    Round: [
        sample(f32(2, 3)).gives(np.round),
        sample(f32([0.5, -0.5, 1.5, 2.5])).gives(lambda x: [1, -1, 2, 3]).kinked(),
    ],
    Trunc: [sample(2 * f32(2, 3)).gives(np.trunc), sample(i64([-3, 3])).gives(np.trunc)],
    Sign: [
        sample(f32(2, 3)).gives(np.sign),
        sample(f32([0.0])).gives(np.sign).kinked(),
        sample(i32([-3, 0, 3])).gives(np.sign),
    ],
}
