"""Samples of complex numbers, their parts, and Fourier transforms."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import complex as ops
from graphopt_tests.ops.base import c64, f32, f64, i64, sample

SPECTRUM = [[1 + 0j, 2 - 1j, -1 + 3j], [0.5 + 0j, 1j, 2 + 0j]]


SAMPLES = {
    ops.Real: [sample(c64([1 + 2j, -3j])).gives(np.real), sample(f32(2, 3)).gives(np.real)],
    ops.Imag: [sample(c64([1 + 2j, -3j])).gives(np.imag), sample(f64(2)).gives(np.imag)],
    ops.Angle: [
        sample(c64([1 + 2j, -3j, -1])).gives(np.angle),
        sample(f32(2, 3)).gives(lambda x: np.where(x < 0, np.pi, 0)),
    ],
    ops.Conj: [sample(c64([1 + 2j])).gives(np.conj), sample(f32(2)), sample(i64(2))],
    ops.Complex: [
        sample(f64(2, 3), f64(3)).gives(lambda a, b: a + 1j * b),
        sample(f64([1.0]), f64([2.0])).gives(lambda a, b: [1 + 2j]),
    ],
    ops.AsComplex: [sample(f64(3, 2)).gives(lambda x: x[:, 0] + 1j * x[:, 1])],
    ops.AsReal: [sample(c64([1 + 2j, -3j])).gives(lambda x: [[1, 2], [0, -3]])],
    ops.FftC2c: [
        sample(c64(SPECTRUM), axes=(0, 1)).gives(np.fft.fftn),
        sample(c64(SPECTRUM), axes=(-1,), forward=False, normalization="ortho").gives(
            lambda x: np.fft.ifft(x, norm="ortho")
        ),
    ],
    ops.FftR2c: [
        sample(f64(2, 5), axes=(1,)).gives(np.fft.rfft),
        sample(f32(2, 4), axes=(0, 1), onesided=False).gives(np.fft.fft2),
        sample(f64(3, 4), axes=(-1,), forward=False).gives(np.fft.ihfft),
        sample(f64(3, 4), axes=(1, 0), forward=False, normalization="forward"),
    ],
    ops.FftC2r: [
        sample(c64(SPECTRUM), axes=(1,), forward=False).gives(np.fft.irfft),
        sample(c64(SPECTRUM), axes=(0, 1), forward=False, last_dim_size=5).gives(
            lambda x: np.fft.irfftn(x, s=(2, 5), axes=(0, 1))
        ),
        sample(c64(SPECTRUM), axes=(1,), last_dim_size=4, normalization="forward").gives(
            lambda x: np.fft.hfft(x, 4, norm="forward")
        ),
        sample(c64(2, 3, 3), axes=(2, 0), normalization="ortho"),
    ],
}
