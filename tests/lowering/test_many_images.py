"""Convolutions of many images by matrix products, a part of the images at a time."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from graphopt.lowering.kernels.convolution import LAYOUT, PATCHES, WAYS, FilterWindow

WINDOW = FilterWindow((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))


@pytest.mark.parametrize("count", [8, pytest.param(701, marks=pytest.mark.exhaustive)])
def test_patches_of_many_images_are_made_in_parts(count: int) -> None:
    random = np.random.default_rng(0)
    x, w = (random.normal(size=s).astype("float32") for s in ((count, 7, 7, 64), (3, 3, 64, 8)))

    def xla(x: Any, w: Any) -> jax.Array:
        return lax.conv_general_dilated(
            x, w, (1, 1), WINDOW.pads, dimension_numbers=LAYOUT, precision="highest"
        )

    way = jax.jit(lambda x, w: WAYS["im2col"](x, w, WINDOW)).lower(x, w).compile()
    np.testing.assert_allclose(way(x, w), xla(x, w), rtol=1e-3, atol=1e-3)
    memory = way.memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 4 * PATCHES
    of_way, of_xla = (
        jax.grad(lambda x, w, f=f: (f(x, w) ** 2).sum(), (0, 1))(x, w)
        for f in (lambda x, w: WAYS["im2col"](x, w, WINDOW), xla)
    )
    for ours, theirs in zip(of_way, of_xla, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
