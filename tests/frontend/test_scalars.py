"""Functions along an axis of a tensor without axes: as in Paddle, the axis may be 0 or -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh, run

# functions of a number x and an axis, and what they give for 2
FUNCTIONS: list[tuple[Callable[[Any, int], Any], list[Any]]] = [
    (paddle.sum, [2.0]),
    (paddle.max, [2.0]),
    (paddle.all, [True]),
    (paddle.logsumexp, [2.0]),
    (paddle.var, [0.0]),
    (paddle.nanmedian, [2.0]),
    (lambda x, axis: paddle.mean(x, axis, keepdim=True), [2.0]),
    (paddle.cumsum, [2.0]),
    (paddle.cumprod, [2.0]),
    (paddle.logcumsumexp, [2.0]),
    (paddle.cummax, [2.0, 0]),
    (paddle.mode, [2.0, 0]),
    (paddle.argsort, [0]),
    (paddle.argmax, [0]),
    (lambda x, axis: paddle.argmin(x, axis, keepdim=True), [[0]]),
    (lambda x, axis: paddle.topk(x, 1, axis), [2.0, 0]),
    (lambda x, axis: paddle.kthvalue(x, 1, axis), [2.0, 0]),
    (paddle.squeeze, [2.0]),
    (lambda x, axis: paddle.nn.functional.gumbel_softmax(x, axis=axis), [1.0]),
]


@pytest.mark.every(3)
@pytest.mark.parametrize("axis", [0, -1])
def test_a_number_has_one_axis(axis: int) -> None:
    """The results have no axes either, as declared."""
    with fresh():
        x = static.data("x", [], "float32")
        made = [function(x if i != 2 else x > 0, axis) for i, (function, _) in enumerate(FUNCTIONS)]
        flat = [
            value for found in made for value in (found if isinstance(found, tuple) else [found])
        ]
        got = run(flat, x=np.array(2, "float32"))
    wanted = [value for _, values in FUNCTIONS for value in values]
    assert [tuple(value.shape) for value in flat] == [np.shape(value) for value in wanted]
    for found, value in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(found, value)
        assert found.shape == np.shape(value)


@pytest.mark.parametrize("function", [paddle.sum, paddle.argmax, paddle.cumsum, paddle.argsort])
def test_a_number_has_no_second_axis(function: Any) -> None:
    with fresh(), pytest.raises(ProgramError, match="axis 1 is out of range"):
        function(static.data("x", [], "float32"), 1)


@pytest.mark.parametrize("shapes", [((), (1,)), ((1,), ()), ((), (1, 1), ())])
def test_a_number_is_a_term_of_a_sum_of_single_elements(shapes: Any) -> None:
    """add_n of [] and [1] is [1], as in Paddle 2.6 and 3.3, and each has a gradient."""
    with fresh():
        terms = [static.data(f"x{i}", list(shape)) for i, shape in enumerate(shapes)]
        for term in terms:
            term.stop_gradient = False
        out = paddle.add_n(terms)
        slopes = static.gradients([out], terms)
        feed = {f"x{i}": np.full(shape, i + 1, "float32") for i, shape in enumerate(shapes)}
        found, *others = run([out, *slopes], **feed)
    wanted = next(shape for shape in shapes if shape)
    np.testing.assert_array_equal(found, np.full(wanted, sum(range(1, len(shapes) + 1))))
    assert [slope.tolist() for slope in others] == [np.ones(shape).tolist() for shape in shapes]


def test_a_number_is_no_term_of_a_sum_of_several_elements() -> None:
    """Paddle would add the number to the first element alone, so it is refused."""
    with fresh(), pytest.raises(ProgramError, match="must have one shape"):
        paddle.add_n([static.data("x", []), static.data("y", [2])])


def test_the_weight_of_lerp_is_a_number_too() -> None:
    with fresh():
        x = static.data("x", [2], "float32")
        (got,) = run([paddle.lerp(x, x * 3, 0.5)], x=np.array([1, 2], "float32"))
    np.testing.assert_array_equal(got, [2, 4])
