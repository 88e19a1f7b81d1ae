"""Ops of the host form that their lowering computes: random ops, and ops without a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.nn import functional as F
from graphopt.runtime.settings.flags import TIER
from graphopt_tests.runtime.nets import build

COUNT = np.array([4])


def noise() -> Any:
    """Build two random draws, one of them with a seed, and a dropout."""
    x = static.data("x", [None, 6], "float32")
    drawn = paddle.uniform([6], min=0.0, max=1.0) + paddle.uniform([6], min=1.0, max=2.0, seed=3)
    return F.dropout(x + drawn, 0.5, training=True)


def fed_shape() -> Any:
    shape = static.data("shape", [2], "int64")
    return paddle.uniform(shape, min=0.0, max=1.0) * paddle.mean(static.data("x", [None, 6]))


def loop(step: Callable[[Any, Any], Any], rows: Any) -> Any:
    """Build a loop over the rows for as many steps as are fed."""
    count = static.data("count", [1], "int64")
    start = paddle.full([1], 0, "int64")
    grown = static.nn.while_loop(
        lambda i, _: i < count, lambda i, rows: [i + 1, step(i, rows)], [start, rows]
    )
    return grown[1]


def steps() -> Any:
    """Build a draw in each iteration of a loop, which XLA compiles as a whole."""
    x = static.data("x", [None, 6], "float32")
    return loop(lambda i, rows: rows + paddle.uniform([6], min=0.0, max=1.0), x)


def sampler() -> Any:
    """Build a decoder that samples: each token depends on all earlier ones."""
    x = static.data("x", [None, 6], "float32")
    weight = paddle.reshape(paddle.arange(36, dtype="float32"), [6, 6]) % 7.0

    def token(i: Any, tokens: Any) -> Any:
        state = paddle.mean(F.one_hot(tokens, 6), 1) + x
        chances = F.softmax(paddle.matmul(state, weight))
        return paddle.concat([tokens, paddle.multinomial(chances, 1)], 1)

    return loop(token, paddle.zeros_like(paddle.cast(x[:, :1], "int64")))


def factors() -> Any:
    """Build an op without a reference rule, and a random one."""
    x = static.data("x", [None, 6], "float32") + paddle.uniform([6], min=0.0, max=1.0)
    return paddle.linalg.svd(x)[1]


def boxes() -> Any:
    """Build non-maximum suppression of boxes, whose result has a data-dependent size."""
    x = static.data("x", [None, 6], "float32") * paddle.uniform([2, 6], min=1.0, max=9.0)
    corners = paddle.concat([x[:, :2], x[:, :2] + x[:, 2:4]], 1)
    return paddle.gather(corners, paddle.vision.ops.nms(corners, 0.2))


@pytest.mark.every(3)
@pytest.mark.parametrize("make", [noise, fed_shape, steps, sampler, factors, boxes])
def test_numbers_are_those_of_the_full_form(make: Callable[[], Any]) -> None:
    """Three runs in a row draw the full form's numbers, each run new ones."""
    net = build(lambda: (make(),) * 2)
    block = net.main.global_block()
    given = {"x": np.ones((2, 6), "float32"), "count": COUNT, "shape": np.array([3, 5])}
    feed = {name: array for name, array in given.items() if block.has_var(name)}

    def runs(tier: str) -> list[Any]:
        paddle.seed(11)
        paddle.set_flags({TIER: tier})
        net.executor = static.Executor(paddle.CPUPlace())
        found = [net.run(feed, net.out)[0] for _ in range(3)]
        forms = list(net.executor.stats["tiers"])
        assert tier == "full" or [form.split(":")[0] for form in forms] == ["host"]
        return found

    try:
        found, wanted = runs("host"), runs("full")
    finally:
        paddle.set_flags({TIER: "full"})
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5)
    assert not np.array_equal(found[0], found[1])
