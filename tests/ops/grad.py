"""Samples of the derivative: types only, program lowering computes it."""

from __future__ import annotations

from graphopt.ir.dialect.ops.grad import Grad
from graphopt_tests.ops.base import f32, f64, sample

SAMPLES = {
    Grad: [
        sample([f32()], [f32(2, 3), f32(3)], [f32()], [f32(4)], parameters=(1,)),
        sample([f64(2), f64(3)], [f64(2)], [f64(2), f64(3)], []),
        sample([f32()], [], [f32()], []),
    ],
}
