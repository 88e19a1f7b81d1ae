"""Derivatives of resized images use the transposed weights, and no scatter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
import pytest

from graphopt.lowering.ops.vision import interpolate

Resize = Callable[[jax.Array], jax.Array]


def resize(size: int, mode: str, *, corners: bool) -> Resize:
    """Build a resize of the last dimension of an image of one row."""
    rest = {"like": None, "scale": (), "single_scale": False, "spaced_by_size": False}
    attrs = {"mode": mode, "align_corners": corners, "align_mode": 0, "data_layout": "NCHW"}
    return partial(interpolate, size=(1, size), **rest, **attrs)


@pytest.mark.every(9)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("old", "new"), [(5, 11), (7, 3), (6, 12), (4, 1), (1, 6), (2, 100), (10, 400)]
)
def test_derivatives(mode: str, old: int, new: int, corners: bool) -> None:
    """The derivative is the transpose of the resize, whose matrix comes from unit images."""
    own = resize(new, mode, corners=corners)
    matrix = np.asarray(own(np.eye(old, dtype=np.float32)[:, None, None]))[:, 0, 0]
    wanted = np.random.default_rng(0).standard_normal((1, 1, 1, new)).astype(np.float32)

    def derivative(y: jax.Array) -> jax.Array:
        zeros = np.zeros((1, 1, 1, old), np.float32)
        return jax.vjp(own, zeros)[1](y)[0]

    np.testing.assert_allclose(derivative(wanted)[0, 0, 0], matrix @ wanted[0, 0, 0], atol=1e-5)
    assert ("scatter" in str(jax.make_jaxpr(derivative)(wanted))) == (new == 400)
    again = jax.vjp(derivative, wanted)[1](np.ones((1, 1, 1, old), np.float32))[0]
    np.testing.assert_allclose(again[0, 0, 0], matrix.sum(0), atol=1e-5)
