"""The maximum of each cell, and its derivative, equal those by masks of all pixels, bit for bit."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from graphopt.lowering.ops.detection.roi import _largest_by_masks, _largest_in, roi_pool


@pytest.mark.exhaustive
def test_cells_as_by_masks() -> None:
    """Cells may be empty, overlap, reach over the edge, or have nan bounds."""
    generator = np.random.default_rng(0)
    x = np.round(generator.standard_normal((2, 3, 6, 5)), 1).astype("float32")
    x[0, 0, 2, 2] = np.nan
    numbers = np.array([3, 1], "int32")
    rows, columns = (
        tuple(np.floor(generator.uniform(-3, size + 3, (2, 4, 2))).astype("float32"))
        for size in (6, 5)
    )
    rows[1][3, 1] = np.nan
    cells = jax.tree.map(jnp.asarray, (numbers, rows, columns))
    found, wanted = (f(jnp.asarray(x), *cells) for f in (_largest_in, _largest_by_masks))
    np.testing.assert_array_equal(found, wanted)
    found, wanted = (
        jax.grad(lambda x, form=form: (form(x, *cells) ** 2).sum())(jnp.asarray(x))
        for form in (_largest_in, _largest_by_masks)
    )
    np.testing.assert_array_equal(found, wanted)


def test_only_pixels_of_cells_are_looked_at() -> None:
    """No array has all pixels for each cell."""
    x, boxes = np.zeros((1, 4, 32, 32), "float32"), np.zeros((8, 4), "float32")
    text = jax.jit(lambda *given: roi_pool(*given, 7, 7, 1.0)).lower(  # pyright: ignore
        x, boxes, np.array([8], "int32")
    )
    assert "8x4x32x7x32" not in text.as_text()
    assert "while" in text.as_text()
