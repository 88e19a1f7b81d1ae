"""Aspects of paddle.fft and paddle.signal that no recorded program has: errors and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fft, signal, static
from graphopt_tests.frontend.programs import fresh, run

REAL, PAIRS = ("real", [2, 8], "float32"), ("pairs", [5, 9], "complex64")


@pytest.mark.parametrize(
    ("call", "given", "kind", "message"),
    [
        (lambda x: fft.fft(x, 0), REAL, ValueError, "sizes above 0 for axes"),
        (lambda x: fft.fft(x, axis=2), REAL, ValueError, r"axes should be in \[-2, 2\)"),
        (lambda x: fft.fftn(x, [4], [0, 1]), REAL, ValueError, "are expected, found"),
        (lambda x: fft.fft(x, norm="both"), REAL, ValueError, "norm"),
        (lambda x: fft.rfft(x), PAIRS, TypeError, "'x' must be real, found complex64"),
        (lambda x: fft.fft2(x, [4]), REAL, ValueError, "'s' should have 2 numbers"),
        (lambda x: fft.fftfreq(0), REAL, ValueError, "should not be 0"),
        (lambda x: signal.stft(x, 9), REAL, ValueError, r"'n_fft' should be in \(0, 8\]"),
        (lambda x: signal.stft(x, 4, win_length=5), REAL, ValueError, "'win_length' should be in"),
        (lambda x: signal.stft(x, 4), PAIRS, ValueError, "'onesided' should be False"),
        (lambda x: signal.istft(x, 8), REAL, ValueError, "'x' should be complex"),
        (lambda x: signal.istft(x, 6), PAIRS, ValueError, "4 frequencies are expected, found 5"),
        (lambda x: signal.istft(x, 8, 9), PAIRS, ValueError, "'hop_length' should be in"),
    ],
)
def test_wrong_uses(call: Callable[[Any], Any], given: Any, kind: Any, message: str) -> None:
    with fresh():
        x = static.data(*given)
        with pytest.raises(kind, match=message):
            call(x)


def test_open_batches_and_gradients() -> None:
    """A batch of any size is recovered by istft; the gradient of the energy is 2 x."""
    with fresh():
        x = static.data("x", [None, 16], "float32")
        x.stop_gradient = False
        back = signal.istft(signal.stft(x, 8, 2), 8, 2)
        spectrum = fft.fft(x, norm="ortho")
        energy = paddle.sum(paddle.real(spectrum) ** 2) + paddle.sum(paddle.imag(spectrum) ** 2)
        (slope,) = static.gradients([energy], [x])
        values = np.random.RandomState(0).rand(3, 16).astype("float32")
        found, gradient = run([back, slope], x=values)
    np.testing.assert_allclose(found, values, 1e-5, 1e-5)
    np.testing.assert_allclose(gradient, 2 * values, 1e-5, 1e-5)
