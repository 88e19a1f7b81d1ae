"""Samples of Fourier transforms."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.spectral import FftC2c, FftC2r, FftR2c
from graphopt_tests.ops.base import c64, f32, f64, sample

SPECTRUM = [[1 + 0j, 2 - 1j, -1 + 3j], [0.5 + 0j, 1j, 2 + 0j]]

SAMPLES = {
    FftC2c: [
        sample(c64(SPECTRUM), axes=(0, 1)).gives(np.fft.fftn),
        sample(c64(SPECTRUM), axes=(-1,), forward=False, normalization="ortho").gives(
            lambda x: np.fft.ifft(x, norm="ortho")
        ),
    ],
    FftR2c: [
        sample(f64(2, 5), axes=(1,)).gives(np.fft.rfft),
        sample(f32(2, 4), axes=(0, 1), onesided=False).gives(np.fft.fft2),
        sample(f64(3, 4), axes=(-1,), forward=False).gives(np.fft.ihfft),
    ],
    FftC2r: [
        sample(c64(SPECTRUM), axes=(1,), forward=False).gives(np.fft.irfft),
        sample(c64(SPECTRUM), axes=(0, 1), forward=False, last_dim_size=5).gives(
            lambda x: np.fft.irfftn(x, s=(2, 5), axes=(0, 1))
        ),
        sample(c64(SPECTRUM), axes=(1,), last_dim_size=4, normalization="forward").gives(
            lambda x: np.fft.hfft(x, 4, norm="forward")
        ),
    ],
}
