"""Variables that are constants of their program serve as numbers where the build needs numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.programs import fresh, run

F = nn.functional
X = np.arange(96, dtype="float32").reshape(2, 3, 4, 4)


def whole(*numbers: int) -> Any:
    return paddle.to_tensor(np.array(numbers, "int32"))


SAME: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: F.adaptive_avg_pool2d(x, [paddle.full([1], 2, "int32"), 4]), lambda x: [2, 4]),
    (lambda x: F.adaptive_avg_pool2d(x, whole(2, 4)), lambda x: [2, 4]),
    (lambda x: F.adaptive_avg_pool2d(x, paddle.full([], 2, "int64")), lambda x: [2, 2]),
]


@pytest.mark.parametrize(("function", "sizes"), SAME, ids=range(len(SAME)))
def test_sizes_of_windows(function: Any, sizes: Any) -> None:
    with fresh():
        x = static.data("x", X.shape, "float32")
        made = [function(x), F.adaptive_avg_pool2d(x, sizes(x))]
        first, second = run(made, x=X)
    np.testing.assert_array_equal(first, second)


def test_numbers_of_several_functions() -> None:
    with fresh():
        x = static.data("x", X.shape, "float32")
        made = [
            paddle.sum(x, axis=paddle.full([], 1, "int32")),
            paddle.unflatten(x, 1, whole(3, 1)),
            nn.Pad1D(whole(1, 2))(x[0]),
            F.dropout(x, paddle.full([1], 0.25), training=False, mode="downscale_in_infer"),
        ]
        got = run(made, x=X)
    wanted = [
        X.sum(1),
        X.reshape(2, 3, 1, 4, 4),
        np.pad(X[0], ((0, 0), (0, 0), (1, 2))),
        X * np.float32(0.75),
    ]
    for found, value in zip(got, wanted, strict=True):
        np.testing.assert_allclose(found, value)


def test_fractions_of_an_optimizer() -> None:
    with fresh() as (main, _):
        weight = static.create_parameter([2], "float32")
        optimizer = paddle.optimizer.Adam(0.1, beta1=paddle.full([1], 0.5))
        optimizer.minimize(paddle.sum(weight))
        (update,) = [op for op in main.global_block().ops if op.type == "adam"]
    assert update.attr("beta1") == 0.5


@pytest.mark.parametrize("changed", [False, True])
def test_other_variables_are_refused(changed: bool) -> None:
    """A fed variable is refused, and so is one that is written twice."""
    with fresh():
        x = static.data("x", X.shape, "float32")
        size = paddle.full([1], 2, "int32") if changed else static.data("s", [1], "int32")
        if changed:
            paddle.assign(size + 1, size)
        with pytest.raises(UnsupportedError, match="needs a number or a constant"):
            F.adaptive_avg_pool2d(x, size)
