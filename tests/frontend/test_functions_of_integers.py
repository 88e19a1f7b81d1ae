"""Functions of integers, and arguments that Paddle 3 added, with numbers of 3.3.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt_tests.frontend.later_names import computed
from graphopt_tests.frontend.programs import fresh

F = paddle.nn.functional


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (paddle.tanh, [0.7615942, 0.9640276]),
        (F.sigmoid, [0.7310586, 0.8807971]),
        (paddle.erf, [0.8427007, 0.9953223]),
        (paddle.rsqrt, [1.0, 0.7071068]),
        (paddle.reciprocal, [1.0, 0.5]),
        (paddle.lgamma, [0.0, 0.0]),
        (lambda x: paddle.polygamma(x, 1), [1.644934, 0.6449341]),
        (paddle.logsumexp, 2.3132617),
        (paddle.i0, [1.266066, 2.2795854]),
        (lambda x: paddle.logit(x, 0.2), [1.3862944, 1.3862944]),
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_functions_whose_results_are_fractions(function: Any, wanted: Any, dtype: str) -> None:
    (found,) = computed(function, x=np.array([1, 2], dtype))
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, wanted, 1e-6, 1e-12)


@pytest.mark.parametrize("function", [paddle.floor, paddle.ceil])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_whole_numbers_need_no_rounding(function: Any, dtype: str) -> None:
    (found,) = computed(function, x=np.array([1, -2], dtype))
    assert found.dtype == dtype
    assert found.tolist() == [1, -2]


def test_means_of_integers() -> None:
    """The mean of integers drops the fraction; the mean of bools is true if one is."""
    with fresh():
        rows = static.data("rows", [None, 2], "int64")
        few = static.data("few", [3], "int32")
        flags = static.data("flags", [3], "bool")
        made = [paddle.mean(rows, 0, True), paddle.mean(few), few.mean(), paddle.mean(flags)]
        made.append(fluid.layers.reduce_mean(few))
        feed = {
            "rows": np.array([[1, 2], [4, 7]]),
            "few": np.array([-1, -2, -4], "int32"),
            "flags": np.array([True, False, False]),
        }
        found = static.Executor().run(feed=feed, fetch_list=made)
    assert [value.tolist() for value in found] == [[[2, 4]], -2, -2, True, [-2]]
    assert [str(value.dtype) for value in found] == ["int64", "int32", "int32", "bool", "int32"]


@pytest.mark.parametrize("function", [paddle.var, paddle.std])
def test_the_spread_of_integers_is_refused(function: Any) -> None:
    with fresh(), pytest.raises(TypeError, match="must be floating-point, found int32"):
        function(static.data("x", [2], "int32"))


@pytest.mark.parametrize(
    ("dtype", "x", "y", "wanted"),
    [
        ("int8", [1, -2, 3, -4, 5, 6], [1, -1, -3, 4, 0, -1], [1, -2, -3, 4, 5, -6]),
        ("uint8", [1, 2], [1, 0], [1, 2]),
        ("bool", [True, False], [True, True], [True, False]),
    ],
)
def test_signs_of_integers(dtype: str, x: Any, y: Any, wanted: Any) -> None:
    arrays = {"x": np.array(x, dtype), "y": np.array(y, dtype)}
    (found,) = computed(lambda x, y: paddle.copysign(x, y), **arrays)
    assert found.dtype == dtype
    assert found.tolist() == wanted


def test_quotients_of_integers() -> None:
    """The division functions that Paddle 3.3 added give fractions."""
    arrays = {"x": np.array([1, -7]), "y": np.array([2, 2])}
    for function in (paddle.true_divide, paddle.div, lambda x, y: x.div(y)):
        (found,) = computed(lambda x, y, function=function: function(x, y), **arrays)
        assert found.dtype == "float32"
        assert found.tolist() == [0.5, -3.5]


def test_rounding_to_decimals() -> None:
    numbers = np.array([0.5, 1.35, -2.26, 1234.567], "float32")
    found = computed(
        lambda x: [paddle.round(x, 1), x.round(decimals=2), paddle.round(x, -2)], x=numbers
    )
    np.testing.assert_allclose(found[0], [0.5, 1.4, -2.3, 1234.6], 1e-6)
    np.testing.assert_allclose(found[1], [0.5, 1.35, -2.26, 1234.57], 1e-6)
    assert found[2].tolist() == [0, 0, 0, 1200]
    (whole,) = computed(lambda x: paddle.round(x, -1), x=np.array([15, -149], "int32"))
    assert whole.tolist() == [15, -149]
    with fresh():
        assert paddle.round(static.data("x", [2]), "near").name == "near.tmp_0"


def test_products_of_all_elements_and_one_tensor_to_join() -> None:
    rows = np.array([[1, 2], [3, 4]])
    products, joined = computed(lambda x: [paddle.cumprod(x), paddle.concat(x, 1)], x=rows)
    assert products.tolist() == [1, 2, 6, 24]
    assert joined.tolist() == rows.tolist()
