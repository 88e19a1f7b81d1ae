"""Convolutions of small images by filters with an axis of size two, on which XLA aborts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# the derivative of a convolution spreads the cotangent by the stride, and a transposed convolution
# its input; with XLA's usual options, which the other tests leave for compiling quickly
SCRIPT = """
import jax, numpy as np
from jax import lax
from graphopt.lowering.kernels.convolution import LAYOUT, convolve_by_xla

def ones(*shape):
    return np.ones(shape, "float32")

for x, w, spread, pads, expected in (
    (ones(1, 3, 8, 2), ones(3, 2, 2, 3), None, [(1, 1)] * 2, (1, 2, 5, 3)),
    (ones(1, 8, 4, 2), ones(2, 5, 2, 3), None, [(1, 1), (2, 2)], (1, 5, 2, 3)),
    (ones(1, 2, 8, 2), ones(3, 2, 2, 3), [2, 2], [(1, 1), (0, 0)], (1, 3, 14, 3)),
    (ones(1, 2, 2, 8, 2), ones(3, 3, 2, 2, 3), [2] * 3, [(1, 1)] * 2 + [(0, 0)], (1, 3, 3, 14, 3)),
):
    axes = len(pads)
    strides = [1 if spread else 2] * axes
    layout = LAYOUT if axes == 2 else ("NDHWC", "DHWIO", "NDHWC")

    def convolve(x, w):
        return convolve_by_xla(x, w, strides, pads, layout, dilations=[1] * axes, spread=spread)

    out, back = jax.vjp(jax.jit(convolve), x, w)
    of_x, of_w = jax.jit(back)(jax.numpy.ones_like(out))
    assert out.shape == expected, out.shape
    # of ones, each sum of products counts the pairs that meet
    assert of_x.sum() == of_w.sum() == out.sum(), (of_x.sum(), of_w.sum(), out.sum())
print("computed")
"""


@pytest.mark.exhaustive
def test_they_are_computed() -> None:
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "computed\n", ended.stderr[:2000]
