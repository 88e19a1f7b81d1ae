"""Samples of the parts of complex numbers."""

from __future__ import annotations

import numpy as np

from graphopt.ir.ops.complex import Angle, Conj, Imag, Real
from graphopt_tests.ops.base import c64, f32, f64, i64, sample

SAMPLES = {
    Real: [sample(c64([1 + 2j, -3j])).gives(np.real), sample(f32(2, 3)).gives(np.real)],
    Imag: [sample(c64([1 + 2j, -3j])).gives(np.imag), sample(f64(2)).gives(np.imag)],
    Angle: [
        sample(c64([1 + 2j, -3j, -1])).gives(np.angle),
        sample(f32(2, 3)).gives(lambda x: np.where(x < 0, np.pi, 0)),
    ],
    Conj: [sample(c64([1 + 2j])).gives(np.conj), sample(f32(2)), sample(i64(2))],
}
