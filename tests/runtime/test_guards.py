"""Crashes, hangs and silent errors of JAX, each with the guard against it.

test_memory.py covers feeds that change after the call, arrays shared between parameters, and steps
that no caller awaits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.program import Variable
from graphopt.passes.parallel.mark_per_replica import MarkPerReplica, uniform_values
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.steps.compiled_steps import MAX_IN_FLIGHT
from graphopt.testing import parse
from graphopt_tests.runtime.nets import build, close, fc_mean, parameter, regression_feed, rows
from graphopt_tests.runtime.replicas import run

STRATEGIES = list(BuildStrategy.ReduceStrategy)[:2]


@pytest.mark.parametrize(
    ("devices", "reduce"), [(0, None), *((n, reduce) for n in (2, 6) for reduce in STRATEGIES)]
)
def test_fetched_tensors_outlive_donation(devices: int, reduce: Any) -> None:
    """A parameter fetched as a tensor is not the array that the next step donates."""
    net = fc_mean()
    program = net.parallel(devices, reduce_strategy=reduce) if devices else net.main
    feed = rows(*range(12))
    fetched = [net.run(feed, "w", program, return_numpy=False)[0] for _ in range(4)]
    values = [float(np.array(tensor).reshape(-1)[0]) for tensor in fetched]
    assert values == sorted(values, reverse=True) and len(set(values)) == 4


@pytest.mark.parametrize("devices", [0, 2, 3, 6])
def test_one_array_fed_under_two_names(devices: int) -> None:
    """Two feeds may share one array, also when XLA uses it without a copy."""

    def make() -> tuple[Variable, Variable]:
        x, y = (static.data(name, [None, 2], "float32") for name in "xy")
        out = paddle.matmul(x, parameter("w", np.eye(2))) + y
        loss = paddle.mean(out)
        paddle.optimizer.SGD(0.0).minimize(loss)
        return loss, out

    net = build(make)
    program = net.parallel(devices) if devices else net.main
    count = 11 if devices == 3 else 12  # 11 rows on 3 devices run in lockstep
    array = np.arange(2 * count, dtype="float32").reshape(count, 2)
    for _ in range(3):
        (out,) = net.run({"x": array, "y": array}, net.out, program)
        close(out, 2 * array)


@pytest.mark.parametrize("reduce", STRATEGIES)
def test_steps_in_flight_are_bounded(reduce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of steps in flight is bounded, even if no caller waits for them."""
    net = fc_mean()
    program = net.parallel(2, reduce_strategy=reduce)
    wait, waits = jax.block_until_ready, list[int]()
    monkeypatch.setattr(jax, "block_until_ready", lambda a: waits.append(len(runs)) or wait(a))
    runs = list[Any]()
    for _ in range(3 * MAX_IN_FLIGHT):
        runs.append(net.run(rows(0, 1), (), program))
    assert len(waits) == 3 and {b - a for a, b in pairwise(waits)} == {MAX_IN_FLIGHT}


def test_a_step_that_fails_to_start_keeps_the_state() -> None:
    """A wrong feed is detected before donation, so the state is kept."""
    net = fc_mean()
    program = net.parallel(2, reduce_strategy=STRATEGIES[1])
    net.run(rows(0, 1), (), program)
    with pytest.raises(ValueError, match="should have dimensions"):
        net.run({"X": np.ones((2, 3), "float32")}, (), program)
    (weight,) = net.run(rows(0, 0), "w", program)
    close(weight, [[1.95], [1.95]])


COUNTER = """
func.func @main(%x: tensor<?xf32> {{pd.feed = "x"}}, %s: tensor<1xf32> {{pd.state = "s"}})
  -> (tensor<1xf32> {{pd.state = "s"}}) {{
  %m = {op} : {types}
  %r = pd.reshape(%m) {{shape = [1]}} : (tensor<f32>) -> tensor<1xf32>
  %t = pd.add(%s, %r) : tensor<1xf32>
  func.return %t : tensor<1xf32>
}}
"""
# values that differ between replicas, and that JAX would take for equal (out_axes=None)
VARYING = {
    "feed": ("pd.mean(%x)", "(tensor<?xf32>) -> tensor<f32>"),
    "random": (
        "pd.uniform() {shape = [], min = 0.0, max = 1.0, rng_id = 3}",
        "() -> tensor<f32>",
    ),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", VARYING)
def test_values_that_differ_are_never_taken_for_one(kind: str) -> None:
    """State that depends on varying values is per replica; no mapper drops device 1's."""
    op, types = VARYING[kind]
    module = parse(COUNTER.format(op=op, types=types))
    assert uniform_values(module)[1] == {"s"}
    MarkPerReplica().apply(paddle_context(), module)
    assert signature_of(module).per_replica == {"s"}
    own = [np.array([1, 2], "float32"), np.array([5, 6], "float32")]
    inputs = [{"x": x, "s": np.zeros(1, "float32")} for x in own]
    for mapper in ("shard_map", "pmap", "vmap", "lockstep"):
        first, second = run(mapper, module, inputs)["pd.state s"]
        assert not np.array_equal(first, second), mapper


def test_what_python_says_is_each_replicas_own() -> None:
    """A Python function is called once for each device, and may return different values."""
    text = COUNTER.format(
        op='pd.py_func(xs = [%s]) {function = 0, ranks = [0], dtypes = ["float32"]}',
        types="(tensor<1xf32>) -> tensor<f32>",
    )
    assert uniform_values(parse(text))[1] == {"s"}


def test_parts_need_their_number_of_replicas() -> None:
    """A program with state sharded over two replicas runs neither on three nor on one."""
    module = parse(
        """
func.func @main(%s: tensor<4xf32> {pd.state = "s"}) -> (tensor<4xf32> {pd.state = "s"}) {
  %p = pd.part(%s) {parts = 2} : (tensor<4xf32>) -> tensor<2xf32>
  %t = pd.all_gather(%p) {parts = 2, sizes = [4], ranks = [1]} : (tensor<2xf32>) -> tensor<4xf32>
  func.return %t : tensor<4xf32>
}"""
    )
    state = {"s": np.arange(4, dtype="float32")}
    for mapper in ("shard_map", "vmap", "lockstep"):
        for found in run(mapper, module, [state] * 2)["pd.state s"]:
            close(found, state["s"])
        with pytest.raises(ProgramError, match="over 2 replicas, but 3 run it"):
            run(mapper, module, [state] * 3)


def paddle_context() -> Any:
    """Make the context in which passes run."""
    from graphopt.ir.dialect.context import new_context

    return new_context()


def test_a_restart_reaches_every_device() -> None:
    """Running the startup program again resets every replica and every shard."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 3], "float32")
        out = paddle.matmul(x, parameter("w", np.ones((3, 2))))
        loss = paddle.mean(paddle.square(out))
        paddle.optimizer.Adam(0.1).minimize(loss)
        return loss, out

    net = build(make)
    feed = {"x": regression_feed(8)["x"]}
    for reduce in STRATEGIES:
        program = net.parallel(4, reduce_strategy=reduce)
        first = [net.run(feed, net.loss, program)[0] for _ in range(3)]
        net.start()
        again = [net.run(feed, net.loss, program)[0] for _ in range(3)]
        net.start()
        close(np.array(again), np.array(first))
