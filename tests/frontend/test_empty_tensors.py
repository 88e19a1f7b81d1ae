"""Tensors without elements: shapes and numbers as Paddle 3.3 has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run

F = paddle.nn.functional
# the function, the shape of x, the shapes of the results
EMPTY: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], list[tuple[int, ...]]]] = {
    "adaptive_max_pool1d": (
        lambda x: F.adaptive_max_pool1d(x, 3, return_mask=True),
        (0, 2, 7),
        [(0, 2, 3), (0, 2, 3)],
    ),
    "grid_sample": (
        lambda x: F.grid_sample(x, paddle.zeros([0, 2, 3, 2])),
        (0, 2, 3, 4),
        [(0, 2, 2, 3)],
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 2, return_mask=True),
        (0, 2, 4, 4),
        [(0, 2, 2, 2), (0, 2, 2, 2)],
    ),
    "nanmedian": (lambda x: paddle.nanmedian(x, 1), (0, 3), [(0,)]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_shapes(name: str) -> None:
    function, shape, wanted = EMPTY[name]
    with fresh():
        made = function(static.data("x", list(shape), "float32"))
        results = [*made] if isinstance(made, (list, tuple)) else [made]
        found = run(results, x=np.zeros(shape, "float32"))
    assert [result.shape for result in found] == wanted


def test_no_samples_have_no_spread() -> None:
    """The deviation of nothing is nan."""
    with fresh():
        found = run([paddle.std(paddle.zeros([0, 3]), 0)])
    assert np.isnan(found[0]).all()
