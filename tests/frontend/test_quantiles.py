"""Quantiles that a run decides, and interpolation between neighbors, with Paddle's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.later_names import computed
from graphopt_tests.frontend.programs import fresh

NAN = float("nan")
BOTH = [paddle.quantile, paddle.nanquantile]
ROWS = np.array([[0.1, 0.5, 0.3, 0.9], [0.2, 0.8, 0.4, 0.7]])


@pytest.mark.every(3)
@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize(
    ("between", "wanted"),
    [
        ("lower", [0.3, 0.4]),
        ("higher", [0.5, 0.7]),
        ("midpoint", [0.4, 0.55]),
        ("nearest", [0.3, 0.4]),
    ],
)
def test_what_is_between_two_neighbours(function: Any, between: str, wanted: list[float]) -> None:
    (found,) = computed(lambda x: function(x, 0.35, 1, interpolation=between), x=ROWS)
    np.testing.assert_allclose(found, wanted, 1e-12)


@pytest.mark.every(3)
@pytest.mark.parametrize("fed", [True, False])
@pytest.mark.parametrize("function", BOTH)
def test_the_nearest_of_two_is_the_even_one(function: Any, fed: bool) -> None:
    """Positions 0.5, 1.5 and 2.4 of the elements 0 to 4 round to even."""
    shares = np.array([0.125, 0.375, 0.6])
    x = np.arange(5.0)
    if fed:
        (found,) = computed(lambda x, q: function(x, q, interpolation="nearest"), x=x, q=shares)
    else:
        known = shares.tolist()
        (found,) = computed(lambda x: function(x, known, interpolation="nearest"), x=x)
    assert found.tolist() == [0, 2, 2]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("function", "x", "q", "slopes"),
    [
        (paddle.quantile, [1, 2, 3], 0.5, [0, 1, 0]),
        (paddle.quantile, [1, 2, 3, 4] * 2, [0.55, 0.7], [0, 0, 0.95, 0, 0, 0.15, 0.9, 0]),
        (paddle.nanquantile, [[1, 2, 3], [4, 5, 6]], [0.3, 0.7], [[0.4, 1.2, 0.4]] * 2),
        (paddle.quantile, [1, NAN, 3], 0.5, [0, 1, 0]),
        (paddle.nanquantile, [1, NAN, 3], 0.5, [0.5, 0, 0.5]),
    ],
)
def test_gradients_for_quantiles_that_are_fed(function: Any, x: Any, q: Any, slopes: Any) -> None:
    arrays = {"x": np.array(x, "float32"), "q": np.array(q, "float32")}

    def slope(x: Any, q: Any) -> Any:
        x.stop_gradient = False
        return static.gradients(paddle.sum(function(x, q, -1)), x)

    (found,) = computed(slope, **arrays)
    np.testing.assert_allclose(found, slopes, 1e-5)


def test_a_constant_says_which() -> None:
    (found,) = computed(
        lambda x: paddle.quantile(x, paddle.to_tensor([0.1, 0.2]), [0, 1], True), x=ROWS
    )
    np.testing.assert_allclose(found, [[[0.17]], [[0.24]]], 1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": []}, "'q' should not be empty"),
        ({"q": [0.2, -0.3]}, r"'q' should be in \[0, 1\]"),
        ({"q": 0.4, "axis": 10}, "'axis' is 10, and x has 3 axes"),
        ({"q": 0.4, "axis": [1, -10]}, "and x has 3 axes"),
        ({"q": 0.4, "interpolation": " "}, "'interpolation' should be one of"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with fresh(), pytest.raises(ValueError, match=message):
        paddle.quantile(static.data("x", [2, 3, 4]), **arguments)


def test_several_axes_of_shares() -> None:
    with fresh(), pytest.raises(ValueError, match="'q' should have at most one axis"):
        paddle.quantile(static.data("x", [2, 3]), static.data("q", [2, 3]))


@pytest.mark.parametrize("function", BOTH)
def test_quantiles_of_integers_are_float64(function: Any) -> None:
    (found,) = computed(lambda x: function(x, 0.25), x=np.array([1, 2, 4]))
    assert found.dtype == "float64"
    assert found == 1.5
