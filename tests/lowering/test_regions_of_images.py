"""Boxes of large images: memory grows with the pixels read, and parts equal the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from graphopt.lowering.ops.detection import roi
from graphopt.reference.ops.detection.roi import roi_align as by_definition

BOXES, CHANNELS, SIDE = 6, 3, 40
RNG = np.random.default_rng(0)
X = RNG.random((2, CHANNELS, SIDE, SIDE), "float32")
CORNERS = RNG.random((BOXES, 2), "float32") * 20
AT = np.concatenate([CORNERS, CORNERS + RNG.random((BOXES, 2), "float32") * 15], 1)
NUMBERS = np.array([2, 4], "int32")


def align(x: Any) -> Any:
    return roi.roi_align(x, jnp.asarray(AT), jnp.asarray(NUMBERS), 2, 2, 1.0, 0, True)


def sizes_in(jaxpr: Any) -> Iterator[int]:
    """Yield the number of elements of each value that a function computes."""
    for equation in jaxpr.eqns:
        yield from (prod(v.aval.shape) for v in equation.outvars)
        for each in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(each, "jaxpr", each)
            if hasattr(inner, "eqns"):
                yield from sizes_in(inner)


@pytest.mark.parametrize("function", [align, jax.grad(lambda x: align(x).sum())])
def test_aligned_regions_copy_no_image_for_each_box(function: Callable[..., Any]) -> None:
    sizes = list(sizes_in(jax.make_jaxpr(function)(X).jaxpr))
    assert len(sizes) > 10
    assert max(sizes) == X.size < BOXES * CHANNELS * SIDE * SIDE


@pytest.mark.exhaustive
def test_the_second_derivative_of_aligned_regions() -> None:
    """Regions are linear in the images, so the gradient of a sum of squares is linear, too."""
    towards = jnp.asarray(RNG.random(X.shape, "float32"))

    def slope(x: Any) -> Any:
        return jax.grad(lambda x: (align(x) ** 2).sum())(x)

    (found,) = jax.vjp(slope, jnp.asarray(X))[1](towards)
    np.testing.assert_allclose(found, slope(towards), rtol=1e-4, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("channels", [CHANNELS, CHANNELS * 4])
def test_parts_give_what_the_whole_gives(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.asarray(RNG.random((2, channels, SIDE, SIDE), "float32"))

    def pool(x: Any) -> Any:
        given = x, jnp.asarray(AT), jnp.asarray(NUMBERS), 2, 2, 1.0
        return roi.prroi_pool(*given) if channels == CHANNELS else roi.psroi_pool(*given, 3)

    whole, slope = pool(x), jax.grad(lambda x: (pool(x) ** 2).sum())(x)
    monkeypatch.setattr(roi, "_COPIED", 0)
    np.testing.assert_allclose(pool(x), whole, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: (pool(x) ** 2).sum())(x), slope, rtol=1e-5)


def test_points_outside_read_nothing() -> None:
    """As in Paddle, an infinity outside the box has no effect, not even in the first pixel."""
    x = np.zeros((1, 1, 6, 6), "float32")
    x[0, 0, 0, 0] = np.inf
    boxes = jnp.asarray([[3, 3, 5, 5], [-20, -20, -10, -10], [20, 20, 30, 30]], "float32")
    found = roi.roi_align(x, boxes, jnp.asarray([3]), 2, 2, 1.0, 1, True)
    np.testing.assert_array_equal(found, np.zeros((3, 1, 2, 2)))


@pytest.mark.parametrize("ratio", [3, 25])
def test_points_that_are_close_together(ratio: int) -> None:
    """Close points are right, also in a box that is a point or ends before its start."""
    x = RNG.random((1, 2, 4, 5), "float32")
    boxes = np.array([[0.2, 0.3, 1.1, 0.9], [1, 1, 1, 1], [3, 3, 1, 0.5], [-9, -9, 21, 32]], "f4")
    given = np.array([4], "int32"), 2, 3, 1.0, ratio, True
    found = roi.roi_align(jnp.asarray(x), jnp.asarray(boxes), *given)
    np.testing.assert_allclose(found, by_definition(x, boxes, *given), rtol=1e-4, atol=1e-6)
