"""Samples of elementwise arithmetic, comparisons and logic."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops import math as ops
from graphopt_tests.ops.base import bf16, c64, f16, f32, f64, flags, i32, i64, sample, u8

SAMPLES = {
    ops.Add: [
        sample(f32(2, 3), f32(3)).gives(np.add),
        sample(f64(2, 1), f64(1, 3)).gives(np.add),
        sample(f32(2, 3), f32()).gives(np.add),
        sample(i64([2**40, 1]), i64([2**40, -1])).gives(np.add),
        sample(bf16(0, 3), bf16(1, 3)).gives(np.add),
        sample(u8(3), u8(3)).gives(np.add),
    ],
    ops.Subtract: [sample(f32(2, 3), f32(2, 1)).gives(np.subtract), sample(i32(3), i32(3))],
    ops.Multiply: [sample(f32(1, 3), f32(2, 3)).gives(np.multiply), sample(f64(0), f64(1))],
    ops.Divide: [
        sample(f32(2, 3), f32(3)).gives(np.divide),
        sample(i64([7, -7, 7, -7]), i64([2, 2, -2, -2])).gives(lambda x, y: [3, -3, -3, 3]),
        sample(i32(2, 3), i32([4])).gives(lambda x, y: np.trunc(x / y)),
    ],
    ops.Maximum: [
        sample(f32(2, 3), f32(2, 3)).gives(np.maximum),
        sample(f64(2, 1), f64(3)).gives(np.maximum),
        sample(i64(3), i64(3)).gives(np.maximum),
        sample(f32([1.0, 2.0]), f32([1.0, 2.0])).gives(np.maximum).kinked(),
    ],
    ops.Minimum: [
        sample(f32(2, 3), f32(3)).gives(np.minimum),
        sample(i32(2, 3), i32()).gives(np.minimum),
    ],
    ops.ElementwisePow: [
        sample(abs(f32(2, 3)), f32(3)).gives(np.power),
        sample(i64([2, 3, -2, 10]), i64([10, 0, 3, 18])).gives(np.power),
        sample(i32([2, 1, -1, -3]), i32([-1, -2, -3, -1])).gives(lambda x, y: [0, 1, -1, 0]),
    ],
    ops.FloorDivide: [
        sample(f32(2, 3), f32(3)).gives(np.floor_divide),
        sample(i64([7, -7, 7, -7]), i64([2, 2, -2, -2])).gives(lambda x, y: [3, -4, -4, 3]),
    ],
    ops.Remainder: [
        sample(f32(2, 3), f32(3)).gives(np.remainder),
        sample(i64([7, -7, 7, -7]), i64([3, 3, -3, -3])).gives(lambda x, y: [1, 2, -2, -1]),
    ],
    ops.Fmax: [
        sample(f32(2, 3), f32(3)).gives(np.fmax),
        sample(f64([np.nan, 1.0]), f64([1.0, np.nan])).gives(lambda x, y: [1, 1]).kinked(),
        sample(i32(3), i32(3)).gives(np.fmax),
    ],
    ops.Fmin: [
        sample(f32(2, 3), f32(3)).gives(np.fmin),
        sample(f64([np.nan, 1.0]), f64([1.0, np.nan])).gives(lambda x, y: [1, 1]).kinked(),
    ],
    ops.Equal: [sample(i64([1, 2, 3]), i64([1, 0, 3])).gives(np.equal), sample(f32(2, 1), f32(3))],
    ops.NotEqual: [sample(i32(2, 3), i32(3)).gives(np.not_equal), sample(flags(3), flags(3))],
    ops.LessThan: [
        sample(f32(2, 3), f32(3)).gives(np.less),
        sample(bf16(3), bf16(3)).gives(np.less),
    ],
    ops.LessEqual: [sample(i64(2, 3), i64(3)).gives(np.less_equal)],
    ops.GreaterThan: [sample(f64(2, 3), f64(3)).gives(np.greater)],
    ops.GreaterEqual: [sample(i32(2, 3), i32(3)).gives(np.greater_equal)],
    ops.LogicalAnd: [
        sample(flags(2, 3), flags(3)).gives(np.logical_and),
        sample(f32([0.0, 2.0]), f32([1.0, 1.0])).gives(np.logical_and),
    ],
    ops.LogicalOr: [sample(flags(2, 3), flags(3)).gives(np.logical_or), sample(i64(4), i64(4))],
    ops.LogicalNot: [sample(flags(3)).gives(np.logical_not), sample(i32(3)).gives(np.logical_not)],
    ops.Exp: [sample(f32(2, 3)).gives(np.exp), sample(f16(3)).gives(np.exp)],
    ops.Log: [
        sample(abs(f32(2, 3))).gives(np.log),
        sample(f32([0.0, -1.0])).gives(lambda x: [-np.inf, np.nan]).kinked(),
    ],
    ops.Sqrt: [sample(abs(f32(2, 3))).gives(np.sqrt), sample(abs(f64()))],
    ops.Rsqrt: [sample(abs(f32(2, 3))).gives(lambda x: x**-0.5)],
    ops.Erf: [sample(f32(2, 3)).gives(np.vectorize(math.erf)), sample(bf16(3))],
    ops.Square: [sample(f32(2, 3)).gives(np.square), sample(i64([-3, 2**20])).gives(np.square)],
    ops.Abs: [
        sample(f32(2, 3)).gives(np.abs),
        sample(i32([-3, 3])).gives(np.abs),
        sample(u8(3)).gives(np.abs),
        sample(c64([3 + 4j])).gives(np.abs),
    ],
    ops.Pow: [
        sample(f32(2, 3), factor=2.0).gives(np.square),
        sample(f32(2, 3), factor=-1.0).gives(np.reciprocal),
        sample(abs(f32(2, 3)), factor=0.5).gives(np.sqrt),
        sample(f32([0.0, -2.0]), factor=0.0).gives(np.ones_like),
        sample(f32([0.0, -2.0]), factor=3.0).gives(lambda x: x**3),
        sample(abs(f64(3)), factor=70.5).gives(lambda x: x**70.5).kinked(),
        sample(i64([3, -2]), factor=3.0).gives(lambda x: x**3),
    ],
    ops.Clip: [
        sample(f32(2, 3), min=-0.5, max=1.0).gives(lambda x: np.clip(x, -0.5, 1)),
        sample(f32([-1.0, 1.0, np.nan]), min=-1.0, max=1.0).gives(lambda x: x).kinked(),
        sample(f16(3), min=-3.4e38, max=3.4e38).gives(lambda x: x),
        sample(f32(3), min=-np.inf, max=0.5).gives(lambda x: np.minimum(x, 0.5)),
        sample(i32([-9, 9]), min=-2.5, max=1e30).gives(lambda x: [-2, 9]),
    ],
    ops.Scale: [
        sample(f32(2, 3), scale=2.0, bias=-0.5).gives(lambda x: 2 * x - 0.5),
        sample(f64(3), scale=2.0, bias=1.0, bias_after_scale=False).gives(lambda x: 2 * (x + 1)),
        sample(i64([1, 2]), scale=2.6, bias=1.2).gives(lambda x: [3, 5]),
        sample(u8([1, 0, 5]), scale=-1.0, bias=3.0).gives(lambda x: [2, 3, 254]),
        sample(bf16(0)),
    ],
    ops.ViewDtype: [
        sample(i32([0x3F800000, -0x3FE00000]), dtype="float32").gives(lambda x: [1, -2.5]),
        sample(i64(2, 3), dtype="float64").gives(lambda x: x.view(np.float64)),
        sample(i32(2, 3), dtype="uint8").gives(lambda x: x.view(np.uint8)),
        sample(u8([[1, 0, 128, 63]]), dtype="float32").gives(lambda x: x.view(np.float32)),
        sample(u8([1, 0]), dtype="bool").gives(lambda x: [True, False]),
    ],
    ops.Cast: [
        sample(f32(2, 3), dtype="float64").gives(lambda x: x),
        sample(f64(3), dtype="float64").gives(lambda x: x),
        sample(f64([1.7, -1.7]), dtype="int32").gives(lambda x: [1, -1]).kinked(),
        sample(f64([300.9, -1, 3e9, np.nan]), dtype="uint8")
        .gives(lambda x: [44, 255, 0, 0])
        .kinked(),
        sample(f32([-2.5, -129, 70000, -np.inf]), dtype="int8")
        .gives(lambda x: [-2, 127, 112, 0])
        .kinked(),
        sample(f32([2**31, -(2**31), 1e20, np.nan]), dtype="int32")
        .gives(lambda x: np.full(4, -(2**31)))
        .kinked(),
        sample(f64([2**53, 2**63, -1e30, np.nan]), dtype="int64")
        .gives(lambda x: [2**53, *[-(2**63)] * 3])
        .kinked(),
        sample(i64([300, 2**40 + 5, -(2**63)]), dtype="int16").gives(lambda x: [300, 5, 0]),
        sample(i64([2**40, 0]), dtype="bool").gives(lambda x: [True, False]),
        sample(flags(3), dtype="bfloat16").gives(lambda x: x),
        sample(c64([1 + 2j]), dtype="float32").gives(np.real),
    ],
    ops.AddN: [
        sample([f32(2, 3), f32(2, 3), f32(2, 3)]).gives(lambda xs: sum(xs)),
        sample([i64(2)]).gives(lambda xs: xs[0]),
        sample([f64(2, 1), f64(2, 1)]).gives(lambda xs: xs[0] + xs[1]),
    ],
    ops.Where: [
        sample(flags(2, 3), f32(2, 3), f32(2, 3)).gives(np.where),
        sample(flags(3), f64(2, 1), f64()).gives(np.where),
        sample(flags(2), i64(2), i64(2)).gives(np.where),
    ],
}
