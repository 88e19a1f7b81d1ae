"""Transposed convolutions and their derivatives, compared with XLA's gradient of a convolution."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from graphopt.lowering.ops import conv

# strides, pads before and after, dilations, sizes of the result, and how the op says it
CASES: dict[str, tuple[Any, Any, Any, Any, dict[str, Any]]] = {
    "strides": ((2, 3), [(0, 0)] * 2, (1, 1), (11, 11), {}),
    "pads": ((2, 2), [(1, 0), (2, 1)], (1, 1), (10, 5), {"paddings": (1, 0, 2, 1)}),
    "holes": ((1, 2), [(1, 1)] * 2, (2, 3), (7, 8), {"paddings": (1, 1), "dilations": (2, 3)}),
    "more": (
        *((3, 2), [(1, 1)] * 2, (1, 1), (15, 7)),
        {"paddings": (1, 1), "output_padding": (2, 1)},
    ),
    "size": ((3, 3), [(0, 0)] * 2, (1, 1), (16, 13), {"output_size": (16, 13)}),
    "tiles": ((3, 2), [(0, 0)] * 2, (1, 1), (15, 8), {}),
}
PLAIN: dict[str, Any] = {
    "paddings": (0, 0),
    "padding_algorithm": "EXPLICIT",
    "dilations": (1, 1),
    "output_padding": (),
    "output_size": (),
}


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("case", "groups", "layout"),
    [(case, groups, "NCHW") for case in CASES for groups in (1, 2)]
    + [(case, 2, "NHWC") for case in ("strides", "tiles")],
)
def test_derivatives(case: str, groups: int, layout: str) -> None:
    strides, pads, dilations, sizes, said = CASES[case]
    random, is_last = np.random.default_rng(0), layout == "NHWC"
    x, w = random.normal(size=(2, 4, 5, 4)), random.normal(size=(4, 2, 3, 2))
    weights = random.normal(size=(2, 2 * groups, *sizes))

    def found(x: Any, w: Any) -> Any:
        options = {**PLAIN, **said, "strides": strides, "groups": groups, "data_format": layout}
        x = x.transpose(0, 2, 3, 1) if is_last else x
        out = conv.conv_transpose(x, w, **options)
        return out.transpose(0, 3, 1, 2) if is_last else out

    def expected(x: Any, w: Any) -> Any:
        # what the convolution from the result to the images does to a gradient
        def back(images: Any) -> Any:
            full = lax.conv_general_dilated(
                *(images, w, strides, pads), rhs_dilation=dilations, feature_group_count=groups
            )
            return full[:, :, : x.shape[2], : x.shape[3]]

        return jax.vjp(back, jax.numpy.zeros(weights.shape))[1](x)[0]

    def both(function: Any) -> Any:
        out, back = jax.vjp(function, x, w)
        return out, *back(weights)

    with jax.enable_x64(True):
        pairs = zip(
            *(jax.jit(both, static_argnums=0)(each) for each in (found, expected)), strict=True
        )
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
