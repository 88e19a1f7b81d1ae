"""ExecutionStrategy.num_iteration_per_run: several steps in one call, on one feed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable
from graphopt.runtime.settings.strategies import ExecutionStrategy
from graphopt_tests.runtime.nets import (
    build,
    close,
    parameter,
    regression,
    regression_feed,
    value,
)


def net_with_everything() -> Any:
    """Build a layer, batch norm, unseeded dropout, momentum, and a step counter."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 2], "float32")
        hidden = paddle.matmul(x, parameter("w", [[1.0, -0.5], [0.5, 2.0]]))
        hidden = static.nn.batch_norm(hidden, moving_mean_name="mm", moving_variance_name="mv")
        out = paddle.nn.functional.dropout(hidden, 0.3)
        loss = paddle.mean(paddle.square(out - 1.0))
        paddle.optimizer.Momentum(0.05).minimize(loss)
        steps = static.create_global_var([1], 0, "int64", persistable=True, name="steps")
        paddle.increment(steps)
        return loss, out

    return build(make)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("devices", "count", "mapper"),
    [
        (2, 4, "shard_map"),
        pytest.param(1, 4, "alone", marks=pytest.mark.exhaustive),
        pytest.param(2, 5, "lockstep", marks=pytest.mark.exhaustive),
        pytest.param(6, 12, "vmap", marks=pytest.mark.exhaustive),
    ],
)
def test_k_steps_are_k_runs(devices: int, count: int, mapper: str) -> None:
    """The last fetches and all state, including random numbers, agree for every mapper."""
    net = net_with_everything()
    feed = {"x": regression_feed(count, width=2)["x"]}
    names = [v.name for v in net.main.list_vars() if v.persistable]
    fetch = [net.loss.name, net.out.name, *names]
    assert {"w", "mm", "mv", "steps"} < set(names)
    paddle.seed(3)
    single = net.parallel(devices)
    for _ in range(6):
        wanted = net.run(feed, fetch, single)
    net.start()
    paddle.seed(3)
    several = net.parallel(devices, steps=3)
    for _ in range(2):
        found = net.run(feed, fetch, several)
    assert several.stats["mapper"] == mapper
    for name, new, old in zip(fetch, found, wanted, strict=True):
        assert new.dtype == old.dtype
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5, err_msg=name)
    assert value("steps") == [6]


def test_none_and_one() -> None:
    """A call of 0 steps is refused."""
    with pytest.raises(ValueError, match="num_iteration_per_run must be 1 or more, found 0"):
        ExecutionStrategy().num_iteration_per_run = 0
    net = net_with_everything()
    net.run({"x": np.ones((4, 2), "float32")}, (), net.parallel(2, steps=1))
    close(value("steps"), [1])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("devices", "count", "mapper", "as_list"),
    [
        (2, 5, "lockstep", True),
        pytest.param(1, 4, "alone", False, marks=pytest.mark.exhaustive),
        pytest.param(2, 4, "shard_map", True, marks=pytest.mark.exhaustive),
        pytest.param(2, 5, "lockstep", False, marks=pytest.mark.exhaustive),
        pytest.param(6, 12, "vmap", False, marks=pytest.mark.exhaustive),
    ],
)
def test_a_batch_for_each_step(devices: int, count: int, mapper: str, as_list: bool) -> None:
    """A feed of [steps, rows, ...] is one batch for each step, for every mapper."""
    net = net_with_everything()
    batches = np.stack([regression_feed(count, width=2, seed=i)["x"] for i in range(3)])
    names = [v.name for v in net.main.list_vars() if v.persistable]
    fetch = [net.loss.name, net.out.name, *names]

    def feed_of(x: Any, rows_axis: int) -> Any:
        if not as_list:
            return {"x": x}
        size = -(-count // devices)
        starts = range(size, count, size)
        return [{"x": part} for part in np.split(x, list(starts), axis=rows_axis)]

    paddle.seed(3)
    single = net.parallel(devices)
    for batch in batches:
        wanted = net.run(feed_of(batch, 0), fetch, single)
    net.start()
    paddle.seed(3)
    several = net.parallel(devices, steps=3)
    found = net.run(feed_of(batches, 1), fetch, several)
    assert several.stats["mapper"] == mapper
    for name, new, old in zip(fetch, found, wanted, strict=True):
        assert new.dtype == old.dtype
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5, err_msg=name)
    assert value("steps") == [3]


def test_some_feeds_for_each_step() -> None:
    """A feed without the additional dimension is used in all steps."""
    net = regression()
    feed = regression_feed(4)
    x = np.stack([feed["x"], feed["x"] + 1])
    for batch in x:
        net.run({**feed, "x": batch}, (), net.main)
    wanted = value("w")
    net.start()
    net.run({**feed, "x": x}, (), net.parallel(2, steps=2))
    close(value("w"), wanted)


def test_wrong_number_of_batches() -> None:
    """A feed with one more dimension needs one batch for each step."""
    net = regression()
    feed = regression_feed(4)
    x = np.stack([feed["x"]] * 3)
    with pytest.raises(ValueError, match=r"'x' was fed shape \[3, 4, 3\].*iteration_per_run = 2"):
        net.run({**feed, "x": x}, (), net.parallel(2, steps=2))
    with pytest.raises(ValueError, match="'x' should have dimensions = 2"):
        net.run({**feed, "x": x}, (), net.parallel(2))
