"""Branches and loops in data-parallel programs, where each replica takes its own path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.frontend.programs import fresh, start, weight

Array = np.ndarray[Any, Any]


def network(*, dropout: bool) -> Any:
    """Build a data-dependent loop, then a branch; return the loss, with an SGD step."""
    x, k = static.data("x", [None, 3], "float32"), static.data("k", [None, 1], "int64")
    w = weight("w", np.full((3, 3), 0.3))
    longest, i = paddle.max(k), paddle.full([], 0, "int64")
    _, h = static.nn.while_loop(
        lambda i, h: i < longest,
        lambda i, h: [i + 1, paddle.tanh(paddle.matmul(h, w))],
        [i, paddle.matmul(x, w)],
    )

    def positive() -> Any:
        return paddle.nn.functional.dropout(h * 2, 0.5) if dropout else h * 2

    h = static.nn.cond(paddle.sum(h) > 0, positive, lambda: h * h)
    loss = paddle.mean(h * h)
    paddle.optimizer.SGD(0.1).minimize(loss)
    return loss


X = np.random.default_rng(0).standard_normal((8, 3)).astype("float32")
K = np.array([[1], [2], [0], [3], [1], [1], [5], [2]], "int64")


def steps(places: int, rows: int, *, dropout: bool = False) -> list[Array]:
    """Return the losses of two steps on these places, and the weight after them."""
    with fresh() as (main, _):
        loss = network(dropout=dropout)
        paddle.seed(3)
        start()
        program: Any = main
        if places > 1:
            program = CompiledProgram(main).with_data_parallel(
                loss.name, BuildStrategy(), places=[paddle.CPUPlace()] * places
            )
        executor = static.Executor(paddle.CPUPlace())
        feed = {"x": X[:rows], "k": K[:rows]}
        losses = [executor.run(program, feed, [loss])[0] for _ in range(2)]
        return [*losses, executor.run(program, feed, ["w"])[0]]


def alone(rows: int, places: int) -> Array:
    """Return the first losses of the replicas, each computed as a separate program."""
    parts = np.array_split(np.arange(rows), places)
    found: list[float] = []
    for part in parts:
        with fresh() as (main, _):
            loss = network(dropout=False)
            start()
            feed = {"x": X[part], "k": K[part]}
            found.append(float(static.Executor(paddle.CPUPlace()).run(main, feed, [loss])[0]))
    return np.array(found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rows", [8, 7])
def test_each_replica_takes_its_own_way(rows: int) -> None:
    """Replicas loop and branch by their own rows, even or uneven, and agree on the weight."""
    losses, *_ = steps(2, rows)
    np.testing.assert_allclose(losses.ravel(), alone(rows, 2), rtol=1e-5)


@pytest.mark.exhaustive
def test_mappers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas on one device each, or all on one, agree, with random numbers in a branch."""
    on_many = steps(4, 8, dropout=True)
    monkeypatch.setattr("graphopt.runtime.compile.compiled.distinct_devices", lambda places: None)
    on_one = steps(4, 8, dropout=True)
    for a, b in zip(on_many, on_one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_optimizer_in_a_branch_needs_one_place() -> None:
    """Replicas in different branches cannot average gradients; one place can update."""
    with fresh() as (main, _):
        x, w = static.data("x", [None, 3], "float32"), weight("w", np.full((3, 1), 0.3))

        def step() -> Any:
            loss = paddle.mean(paddle.matmul(x, w))
            paddle.optimizer.SGD(0.1).minimize(loss)
            return loss

        out = static.nn.cond(paddle.sum(x) > 0, step, lambda: paddle.mean(x))
        start()
        program = CompiledProgram(main).with_data_parallel(
            out.name, BuildStrategy(), places=[paddle.CPUPlace()] * 2
        )
        with pytest.raises(UnsupportedError, match="optimizer inside control flow"):
            static.Executor(paddle.CPUPlace()).run(program, {"x": X}, [out])
