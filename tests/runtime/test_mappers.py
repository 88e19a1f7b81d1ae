"""All mappers compute the same: shard_map, pmap, vmap and lockstep, and alone replica by replica.

Random modules go through the data-parallel pipeline; then every mapper gets the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.ir.parse_program import parse_program
from graphopt.ir.program import Variable
from graphopt.ir.signature import FEED, signature_of
from graphopt.lowering import mappers
from graphopt.lowering.lockstep import lockstep
from graphopt.lowering.mappers import Mapped, Plan
from graphopt.passes.manager import optimize
from graphopt.testing import programs
from graphopt.testing.compare import random_inputs, run_module
from graphopt.testing.programs import Generated
from graphopt_tests.runtime.nets import build, parameter, strategy

Arrays = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[ModuleOp, Plan, int], Mapped]
KEY = np.array([7, 1], np.uint32)


def devices(count: int) -> list[Any]:
    return jax.devices("cpu")[:count]


MAPPERS: dict[str, Run] = {
    "shard_map": lambda m, p, n: mappers.shard_map(m, p, devices(n), donate=False),
    "pmap": lambda m, p, n: mappers.pmap(m, p, devices(n), donate=False),
    "vmap": lambda m, p, n: mappers.vmap(m, p, devices(1)[0], n, donate=False),
    "lockstep": lambda m, p, n: lockstep(m, p, devices(1)[0], n),
}


def parallel(module: ModuleOp, count: int, **flags: Any) -> ModuleOp:
    """The module as a data-parallel run on `count` devices has it."""
    changed = module.clone()
    optimize(changed, strategy(**flags).setup(replicas=count, data_parallel=True))
    return changed


def run(name: str, module: ModuleOp, inputs: list[Arrays], steps: int = 1) -> dict[str, Any]:
    """Every result by kind and name with one entry for each replica.

    `inputs` are the feeds and per-replica state of each replica; other state is the first's.
    """
    count = len(inputs)
    plan = Plan.of(module, steps)
    mapped = MAPPERS[name](module, plan, count)

    def state(ports: Any) -> tuple[Any, ...]:
        return tuple(
            np.stack([i[p.name] for i in inputs]) if p.per_replica else inputs[0][p.name]
            for p in ports
        )

    feeds: list[Any] = []
    for port in plan.feeds:
        parts = [np.atleast_1d(i[port.name]) for i in inputs]
        feeds.append(parts if name == "lockstep" else np.concatenate(parts))
    with jax.enable_x64(True):
        fetches, written = mapped.function(
            state(plan.updated), state(plan.read_only), tuple(feeds), KEY
        )
    found = {
        f"{p.kind} {p.name}": list(map(np.array, a))
        for p, a in zip(plan.fetches, fetches, strict=True)
    }
    for port, array in zip(plan.written, written, strict=True):
        array = np.array(array)
        found[f"{port.kind} {port.name}"] = list(array) if port.per_replica else [array] * count
    return found


def agree(found: dict[str, Any], wanted: dict[str, Any], who: str, tolerance: float = 1e-5) -> None:
    """AssertionError, naming the result, unless all numbers of all replicas are nearly equal."""
    assert found.keys() == wanted.keys()
    for name, arrays in wanted.items():
        for index, (new, old) in enumerate(zip(found[name], arrays, strict=True)):
            assert new.shape == old.shape and new.dtype == old.dtype, (who, name)
            scale = max(float(np.abs(old).max(initial=0.0)), 1.0)
            error = f"{who}: {name} of replica {index}"
            np.testing.assert_allclose(new, old, tolerance, tolerance * scale, err_msg=error)


def inputs_of(module: ModuleOp, count: int) -> list[Arrays]:
    """Feeds and state for each replica; state is the same for all of them."""
    everything = [random_inputs(module, seed) for seed in range(count)]
    feeds = {port.name for port in signature_of(module).arguments if port.kind == FEED}
    first = everything[0]
    return [{n: own[n] if n in feeds else first[n] for n in first} for own in everything]


@settings(max_examples=6)
@given(programs(), st.sampled_from([2, 3]), st.booleans())
def test_random_training_modules(generated: Generated, count: int, sync: bool) -> None:
    """Fetches, updated weights and moving statistics, with and without synchronised norms."""
    module = parallel(generated.module, count, sync_batch_norm=sync)
    inputs = inputs_of(generated.module, count)
    wanted = run("shard_map", module, inputs)
    for name in ("pmap", "vmap", "lockstep"):
        agree(run(name, module, inputs), wanted, name)


@settings(max_examples=6)
@given(programs(), st.sampled_from([1, 2, 3]))
def test_replicas_are_plain_runs(generated: Generated, count: int) -> None:
    """Forward values are those of each replica alone; the new weights are the replicas' mean.

    (The update is linear in the gradient, and the gradients are averaged: the seed of a loss with
    parameters is 1 / count.)
    """
    module = generated.module
    inputs = inputs_of(module, count)
    alone = [run_module(module, own) for own in inputs]
    found = run("lockstep", parallel(module, count), inputs)
    trains = any(name.startswith("pd.state w.") for name in found)
    for name in alone[0]:
        own = [results[name] for results in alone]
        if name.startswith("pd.state w."):
            own = [np.mean(own, axis=0, dtype="float64").astype("float32")] * count
        elif trains and "grad." in name:
            own = [gradient / np.float32(count) for gradient in own]
        agree({name: found[name]}, {name: own}, "alone")


def hand_written(norm: bool) -> ModuleOp:
    """Dropout with and without a seed, a number that is fed, and an unsynchronised norm."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [4, 2], "float32")
        factor = static.data("factor", [], "float32")
        hidden = paddle.matmul(x, parameter("w", [[1.0, -0.5], [0.5, 2.0]])) * factor
        if norm:
            hidden = static.nn.batch_norm(hidden)
        out = paddle.nn.functional.dropout(hidden, 0.4)
        static.default_main_program().random_seed = 5
        out = paddle.nn.functional.dropout(out, 0.2)
        loss = paddle.mean(paddle.square(out - 1.0))
        paddle.optimizer.Momentum(0.1).minimize(loss)
        return loss, out

    net = build(make)
    return parse_program(net.main, ["x", "factor"], [net.loss.name, net.out.name, "w@GRAD"])


@pytest.mark.parametrize(("norm", "steps"), [(True, 1), (False, 3)])
def test_random_numbers_and_numbers(norm: bool, steps: int) -> None:
    """Replicas draw the same under every mapper, also in several steps of one call."""
    module = parallel(hand_written(norm), 4)
    inputs = inputs_of(module, 4)
    wanted = run("shard_map", module, inputs, steps)
    outs = next(value for name, value in wanted.items() if "dropout" in name)
    assert not np.array_equal(outs[0] == 0, outs[1] == 0)
    for name in ("pmap", "vmap", "lockstep"):
        agree(run(name, module, inputs, steps), wanted, name, 1e-4)


def test_what_travels_with_a_replica_axis() -> None:
    """Only the statistics that differ; synchronised ones and weights are one value."""
    module = hand_written(norm=True)
    names = signature_of(parallel(module, 2)).per_replica
    assert names == {"batch_norm_0.w_1", "batch_norm_0.w_2"}
    assert not signature_of(parallel(module, 2, sync_batch_norm=True)).per_replica
    assert not signature_of(parallel(module, 1)).per_replica


def test_gradients_that_are_not_summed() -> None:
    """With synchronised norms, a replica's own gradient of scale and bias is of its rows only."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [3, 2], "float32")
        out = static.nn.batch_norm(x)
        loss = paddle.mean(paddle.square(out - paddle.tanh(x)))
        params = static.default_main_program().all_parameters()
        static.gradients(loss, [p for p in params if p.trainable])
        return loss, out

    names = ["batch_norm_0.w_0@GRAD", "batch_norm_0.b_0@GRAD"]
    module = parallel(parse_program(build(make).main, ["x"], names), 2, sync_batch_norm=True)
    inputs = inputs_of(module, 2)
    wanted = run("shard_map", module, inputs)
    first, second = wanted[f"pd.fetch {names[0]}"]
    assert np.abs(first - second).max() > 1e-3
    for name in ("pmap", "vmap", "lockstep"):
        agree(run(name, module, inputs), wanted, name)
