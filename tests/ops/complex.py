"""Samples of complex numbers and their parts."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.complex import Angle, AsComplex, AsReal, Complex, Conj, Imag, Real
from graphopt_tests.ops.base import c64, f32, f64, i64, sample

SAMPLES = {
    Real: [sample(c64([1 + 2j, -3j])).gives(np.real), sample(f32(2, 3)).gives(np.real)],
    Imag: [sample(c64([1 + 2j, -3j])).gives(np.imag), sample(f64(2)).gives(np.imag)],
    Angle: [
        sample(c64([1 + 2j, -3j, -1])).gives(np.angle),
        sample(f32(2, 3)).gives(lambda x: np.where(x < 0, np.pi, 0)),
    ],
    Conj: [sample(c64([1 + 2j])).gives(np.conj), sample(f32(2)), sample(i64(2))],
    Complex: [
        sample(f64(2, 3), f64(3)).gives(lambda a, b: a + 1j * b),
        sample(f64([1.0]), f64([2.0])).gives(lambda a, b: [1 + 2j]),
    ],
    AsComplex: [sample(f64(3, 2)).gives(lambda x: x[:, 0] + 1j * x[:, 1])],
    AsReal: [sample(c64([1 + 2j, -3j])).gives(lambda x: [[1, 2], [0, -3]])],
}
