"""Samples of special functions and of numbers by their bits."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.special import (
    I0,
    I1,
    BitwiseLeftShift,
    BitwiseRightShift,
    Copysign,
    Gammaincc,
    Gcd,
    Heaviside,
    I0e,
    I1e,
    Nextafter,
    Polygamma,
)
from graphopt_tests.ops.base import bf16, f32, f64, i32, i64, sample, u8

SAMPLES = {
    I0: [
        sample(f32(2, 3)).gives(np.i0),
        sample(f64([0.0])).gives(np.i0).kinked(),
        sample(bf16(0)),
    ],
    I0e: [sample(f32(2, 3)).gives(lambda x: np.i0(x) * np.exp(-abs(x)))],
    I1: [sample(f32([1.0, -1.0])).gives(lambda x: [0.5651591039924851, -0.5651591039924851])],
    I1e: [sample(f64([1.0])).gives(lambda x: [0.20791041534970844])],
    Polygamma: [
        sample(f32([1.0, 0.5]), n=0).gives(lambda x: [-0.5772156649, -1.9635100260]),
        sample(f64([1.0, 0.5]), n=1).gives(lambda x: [np.pi**2 / 6, np.pi**2 / 2]),
    ],
    Gammaincc: [
        # of order 1 it is exp(-y)
        sample(f32([1.0, 1.0]), f32([0.5, 2.0])).gives(lambda x, y: np.exp(-y)).kinked(),
        sample(f64([[1.0], [1.0]]), f64([0.5, 0.25]))
        .gives(lambda x, y: np.exp(-y) + 0 * x)
        .kinked(),
    ],
    Nextafter: [
        sample(f64([1.0, 0.0]), f64([2.0, 0.0])).gives(np.nextafter).kinked(),
        sample(f64([1.0]), f64([[0.0]])).gives(np.nextafter).kinked(),
    ],
    Copysign: [
        sample(f32(2, 3), f32(3)).gives(np.copysign),
        sample(f64([1.0, -2.0]), f64([-0.0])).gives(np.copysign).kinked(),
    ],
    Heaviside: [
        sample(f32([-1.0, 0.0, 2.0]), f32([0.5])).gives(np.heaviside).kinked(),
        sample(i64([-1, 0, 2]), i64([5, 6, 7])).gives(lambda x, y: [0, 6, 1]),
    ],
    Gcd: [
        sample(i64([12, -18, 0]), i64([8, 12, 5])).gives(np.gcd),
        sample(i32(2, 1), i32(3)).gives(np.gcd),
    ],
    BitwiseLeftShift: [
        sample(i64([1, -3]), i64([2, 1])).gives(np.left_shift),
        sample(u8([200]), u8([1])).gives(lambda x, y: [144]),
    ],
    BitwiseRightShift: [
        sample(i32([-8, 9]), i32([1, 2])).gives(np.right_shift),
        sample(i32([-8]), i32([28]), is_arithmetic=False).gives(lambda x, y: [15]),
    ],
}
