"""Samples of the elementary and special functions."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops import elementary as ops
from graphopt_tests.ops.base import bf16, c64, f32, f64, i32, i64, sample, u8

SAMPLES = {
    ops.Sin: [sample(f32(2, 3)).gives(np.sin), sample(c64([1 + 2j])).gives(np.sin), sample(f64())],
    ops.Cos: [sample(f32(2, 3)).gives(np.cos), sample(bf16(0, 3))],
    ops.Tan: [sample(f32(2, 3) / 2).gives(np.tan)],
    ops.Asin: [
        sample(f32(2, 3) / 3).gives(np.arcsin),
        sample(f32([1.0, 2.0])).gives(lambda x: [np.pi / 2, np.nan]).kinked(),
    ],
    ops.Acos: [sample(f32(2, 3) / 3).gives(np.arccos)],
    ops.Atan: [sample(f32(2, 3)).gives(np.arctan)],
    ops.Sinh: [sample(f32(2, 3)).gives(np.sinh)],
    ops.Cosh: [sample(f32(2, 3)).gives(np.cosh)],
    ops.Asinh: [sample(f32(2, 3)).gives(np.arcsinh)],
    ops.Acosh: [sample(1.25 + abs(f32(2, 3))).gives(np.arccosh)],
    ops.Atanh: [sample(f32(2, 3) / 3).gives(np.arctanh)],
    ops.Log2: [
        sample(abs(f32(2, 3))).gives(np.log2),
        sample(f32([8.0, 0.0])).gives(lambda x: [3, -np.inf]).kinked(),
    ],
    ops.Log10: [sample(abs(f32(2, 3))).gives(np.log10)],
    ops.Log1p: [sample(abs(f32(2, 3))).gives(np.log1p), sample(f64([1e-12])).gives(np.log1p)],
    ops.Expm1: [sample(f32(2, 3)).gives(np.expm1), sample(f64([1e-12])).gives(np.expm1)],
    ops.Reciprocal: [
        sample(f32(2, 3)).gives(np.reciprocal),
        sample(f32([0.0])).gives(lambda x: [np.inf]).kinked(),
    ],
    ops.Stanh: [
        sample(f32(2, 3)).gives(lambda x: 1.7159 * np.tanh(0.67 * x)),
        sample(f64(3), scale_a=1.0, scale_b=-2.0).gives(lambda x: -2 * np.tanh(x)),
    ],
    ops.Logit: [
        sample(abs(f32(2, 3)) / 3).gives(lambda x: np.log(x / (1 - x))),
        sample(f32([0.0, 0.5, 2.0]), eps=0.25)
        .gives(lambda x: [-math.log(3), 0, math.log(3)])
        .kinked(),
        sample(f64([0.25, 2.0]), eps=0.0).gives(lambda x: [-math.log(3), np.nan]).kinked(),
    ],
    ops.Erfinv: [sample(f32([0.5, -0.25])).gives(lambda x: [0.4769362762, -0.2253120550])],
    ops.Lgamma: [
        sample(abs(f32(2, 3))).gives(np.vectorize(math.lgamma)),
        sample(f32([-0.5])).gives(np.vectorize(math.lgamma)),
        sample(f32([1.0, 2.0])).gives(lambda x: [0, 0]),
    ],
    ops.Digamma: [
        sample(f32([1.0, 0.5])).gives(lambda x: [-0.5772156649, -1.9635100260]),
        sample(f32([0.0, -0.0])).gives(lambda x: [-np.inf, np.inf]).kinked(),
    ],
    ops.Floor: [
        sample(f32(2, 3)).gives(np.floor),
        sample(f32([-0.5, 2.0])).gives(np.floor).kinked(),
    ],
    ops.Ceil: [sample(f32(2, 3)).gives(np.ceil)],
    ops.Round: [
        sample(f32(2, 3)).gives(np.round),
        sample(f32([0.5, -0.5, 1.5, 2.5])).gives(lambda x: [1, -1, 2, 3]).kinked(),
        sample(i64([-3, 3])).gives(lambda x: x),
    ],
    ops.Trunc: [sample(2 * f32(2, 3)).gives(np.trunc), sample(i64([-3, 3])).gives(np.trunc)],
    ops.Sign: [
        sample(f32(2, 3)).gives(np.sign),
        sample(f32([0.0])).gives(np.sign).kinked(),
        sample(i32([-3, 0, 3])).gives(np.sign),
    ],
    ops.I0: [
        sample(f32(2, 3)).gives(np.i0),
        sample(f64([0.0])).gives(np.i0),
        sample(f32([-100.0, 80.0])),
        sample(bf16(0)),
    ],
    ops.I0e: [
        sample(f32(2, 3)).gives(lambda x: np.i0(x) * np.exp(-abs(x))),
        sample(f64([-0.001, 12.0, -29.9, 30.1, 1e4])),
    ],
    ops.I1: [sample(f32([1.0, -1.0])).gives(lambda x: [0.5651591039924851, -0.5651591039924851])],
    ops.I1e: [
        sample(f64([1.0])).gives(lambda x: [0.20791041534970844]),
        sample(f64([-0.001, 12.0, -29.9, 30.1, 1e4])),
    ],
    ops.Polygamma: [
        sample(f32([1.0, 0.5]), n=0).gives(lambda x: [-0.5772156649, -1.9635100260]),
        sample(f64([1.0, 0.5]), n=1).gives(lambda x: [np.pi**2 / 6, np.pi**2 / 2]),
        # far below 0, by Paddle
        sample(f32([-9.955, -2.3, -30.25]), n=1).gives(lambda x: [497.03299, 14.725917, 19.70669]),
        sample(f32([-9.955, -2.3, -30.25]), n=2).gives(lambda x: [-21947.18, 68.713844, 124.02405]),
    ],
    ops.Gammaincc: [
        # of order 1 it is exp(-y)
        sample(f32([1.0, 1.0]), f32([0.5, 2.0])).gives(lambda x, y: np.exp(-y)).kinked(),
        sample(f32([1e5]), f32([1e5])).gives(lambda x, y: [0.49957948]).kinked(),
        sample(f64([[1.0], [1.0]]), f64([0.5, 0.25]))
        .gives(lambda x, y: np.exp(-y) + 0 * x)
        .kinked(),
    ],
    ops.Nextafter: [
        sample(f64([1.0, 0.0]), f64([2.0, 0.0])).gives(np.nextafter).kinked(),
        sample(f64([1.0]), f64([[0.0]])).gives(np.nextafter).kinked(),
    ],
    ops.Copysign: [
        sample(f32(2, 3), f32(3)).gives(np.copysign),
        sample(f64([1.0, -2.0]), f64([-0.0])).gives(np.copysign).kinked(),
        sample(i64([3, -3, 2]), i64([-1, 0, 5])).gives(lambda x, y: [-3, 3, 2]),
    ],
    ops.Heaviside: [
        sample(f32([-1.0, 0.0, 2.0]), f32([0.5])).gives(np.heaviside).kinked(),
        sample(i64([-1, 0, 2]), i64([5, 6, 7])).gives(lambda x, y: [0, 6, 1]),
    ],
    ops.Gcd: [
        sample(i64([-(2**63), -(2**63), 6]), i64([6, 1, -4])).gives(lambda x, y: [2, 1, 2]),
        sample(i64([12, -18, 0]), i64([8, 12, 5])).gives(np.gcd),
        sample(i32(2, 1), i32(3)).gives(np.gcd),
    ],
    ops.BitwiseLeftShift: [
        sample(i64([1, -3]), i64([2, 1])).gives(np.left_shift),
        sample(u8([200]), u8([1])).gives(lambda x, y: [144]),
    ],
    ops.BitwiseRightShift: [
        sample(i32([-8, 9]), i32([1, 2])).gives(np.right_shift),
        sample(i32([-8]), i32([28]), is_arithmetic=False).gives(lambda x, y: [15]),
    ],
    ops.Atan2: [sample(f32(2, 3), f32(3)).gives(np.arctan2), sample(f64(2, 1), f64(1, 3))],
    ops.Lerp: [
        sample(f32(2, 3), f32(2, 3), f32(1)).gives(lambda x, y, w: x + w * (y - x)),
        sample(f64(3), f64(2, 3), f64()).gives(lambda x, y, w: x + w * (y - x)),
    ],
}
