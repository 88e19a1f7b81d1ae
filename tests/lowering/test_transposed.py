"""Transposed convolutions: derivatives of their own are those of XLA."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from graphopt.lowering.kernels.convolution import FILTER_GRADIENTS
from graphopt.lowering.ops import conv

CASES = {
    "strides": {"strides": (2, 3)},
    "pads": {"strides": (2, 2), "paddings": (1, 0, 2, 1)},
    "holes": {"strides": (1, 2), "dilations": (2, 3), "paddings": (1, 1)},
    "more": {"strides": (3, 2), "output_padding": (2, 1), "paddings": (1, 1)},
    "size": {"strides": (3, 3), "output_size": (16, 13)},
    "same": {"strides": (2, 2), "padding_algorithm": "SAME"},
}
PLAIN: dict[str, Any] = {
    "paddings": (0, 0),
    "padding_algorithm": "EXPLICIT",
    "dilations": (1, 1),
    "groups": 1,
    "output_padding": (),
    "output_size": (),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", CASES)
def test_derivatives(case: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random, options = np.random.default_rng(0), {**PLAIN, **CASES[case], "data_format": layout}
    x = random.normal(size=(2, 3, 5, 4) if layout == "NCHW" else (2, 5, 4, 3))
    w = random.normal(size=(3, 2, 3, 2))
    used: list[int] = []
    own = FILTER_GRADIENTS["patches"]
    monkeypatch.setitem(FILTER_GRADIENTS, "patches", lambda *given: used.append(1) or own(*given))  # pyright: ignore

    def all_of(function: Any) -> list[Any]:
        out, back = jax.vjp(function, x, w)
        cotangent = np.cos(np.arange(out.size)).reshape(out.shape)
        return [out, *back(cotangent)]

    with jax.enable_x64(True):
        found = all_of(lambda x, w: conv.conv_transpose(x, w, **options))
        assert used
        monkeypatch.setattr(conv, "transposed", lambda plain, window, first, x, w: plain(x, w))
        expected = all_of(lambda x, w: conv.conv_transpose(x, w, **options))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
