"""Samples of bitwise ops and of predicates on elements."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import logic as ops
from graphopt_tests.ops.base import bf16, f32, f64, flags, i32, i64, sample, u8

SPECIAL = [0.0, np.inf, -np.inf, np.nan]

SAMPLES = {
    ops.BitwiseAnd: [
        sample(i32(2, 3), i32(3)).gives(np.bitwise_and),
        sample(flags(3), flags(3)).gives(np.bitwise_and),
    ],
    ops.BitwiseOr: [sample(i64(2, 3), i64(3)).gives(np.bitwise_or)],
    ops.BitwiseXor: [sample(u8(2, 3), u8(3)).gives(np.bitwise_xor)],
    ops.BitwiseNot: [
        sample(i32([5, -1])).gives(lambda x: [-6, 0]),
        sample(flags(3)).gives(np.logical_not),
    ],
    ops.LogicalXor: [
        sample(flags(2, 3), flags(3)).gives(np.logical_xor),
        sample(f32([0.0, 2.0]), f32([1.0, 3.0])).gives(np.logical_xor),
    ],
    ops.Isnan: [sample(f32(SPECIAL)).gives(np.isnan), sample(i32(3)).gives(np.isnan)],
    ops.Isinf: [sample(f64(SPECIAL)).gives(np.isinf), sample(bf16(0, 3))],
    ops.Isfinite: [sample(f32(SPECIAL)).gives(np.isfinite), sample(i64(2)).gives(np.isfinite)],
    ops.EqualAll: [
        sample(i64([1, 2]), i64([1, 2])).gives(lambda x, y: True),
        sample(f32([1.0, 2.0]), f32([1.0, 3.0])).gives(lambda x, y: False),
        sample(f32(2, 3), f32(3)).gives(lambda x, y: False),
        sample(f32(0), f32(0)).gives(lambda x, y: True),
    ],
    ops.Isclose: [
        sample(f32([1.0, 1.0, np.nan]), f32([1.000001, 1.1, np.nan])).gives(
            lambda x, y: [True, False, False]
        ),
        sample(f64([np.nan, np.inf, np.inf]), f64([np.nan, np.inf, 0.0]), equal_nan=True).gives(
            lambda x, y: [True, True, False]
        ),
        sample(f32(2, 3), f32(3), atol=10.0).gives(lambda x, y: x < 9),
    ],
    ops.Allclose: [
        sample(f32([1.0, 2.0]), f32([1.1, 2.1]), rtol=0.2).gives(lambda x, y: True),
        sample(f64([1.0, 2.0]), f64([1.0, 2.1])).gives(lambda x, y: False),
    ],
}
