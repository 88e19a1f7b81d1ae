"""All mappers compute the same: shard_map, pmap, vmap and lockstep, and each replica alone.

Random modules go through the data-parallel pipeline; then every mapper gets the same arrays.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.debug.compare import run_module
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.program import Variable
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.fusions.fuse_bn_act import FuseBnAct
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.testing import programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.runtime.nets import build, parameter
from graphopt_tests.runtime.replicas import agree, inputs_of, parallel, run


@pytest.mark.exhaustive
@settings(max_examples=examples(6))
@given(programs(plant=FuseBnAct.RULES), st.sampled_from([2, 3]), st.booleans())
def test_random_training_modules(generated: Generated, count: int, sync: bool) -> None:
    """Fetches, weights and moving statistics agree, with and without synchronized norms."""
    module = parallel(generated.module, count, sync_batch_norm=sync)
    inputs = inputs_of(generated.module, count)
    wanted = run("shard_map", module, inputs)
    for name in ("pmap", "vmap", "lockstep"):
        agree(run(name, module, inputs), wanted, name)


@pytest.mark.exhaustive
def test_updates_in_parts() -> None:
    """With Reduce all mappers agree, and train as AllReduce does, bucketed or not."""
    spread = 0

    @settings(max_examples=examples(20))
    @given(programs(plant=FuseGemmEpilogue.RULES), st.sampled_from([2, 3]), st.booleans())
    def check(generated: Generated, count: int, joined: bool) -> None:
        nonlocal spread
        reduce = BuildStrategy.ReduceStrategy.Reduce
        module = parallel(
            generated.module, count, reduce_strategy=reduce, fuse_broadcast_ops=joined
        )
        spread += "pd.reduce_scatter" in str(module)
        inputs = inputs_of(generated.module, count)
        wanted = run("lockstep", parallel(generated.module, count), inputs)
        for name in ("shard_map", "pmap", "vmap", "lockstep"):
            found = run(name, module, inputs)
            # a fetched gradient of a parameter is summed on its owner only
            weights = {key: found[key] for key in wanted if "grad." not in key}
            agree(weights, {key: wanted[key] for key in weights}, name)

    check()
    assert spread >= 3


@pytest.mark.exhaustive
@settings(max_examples=examples(6))
@given(programs(plant=FuseGemmEpilogue.RULES), st.sampled_from([1, 2, 3]))
def test_replicas_are_plain_runs(generated: Generated, count: int) -> None:
    """Forward values equal each replica's alone; the new weights are the replicas' mean.

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
    """Build dropout with and without a seed, a fed scalar, and an unsynchronized norm."""

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


@pytest.mark.exhaustive
@pytest.mark.parametrize(("norm", "steps"), [(True, 1), (False, 3)])
def test_random_numbers_and_numbers(norm: bool, steps: int) -> None:
    """Replicas draw the same numbers under every mapper, also in several steps of one call."""
    module = parallel(hand_written(norm), 4)
    inputs = inputs_of(module, 4)
    wanted = run("shard_map", module, inputs, steps)
    outs = next(value for name, value in wanted.items() if "dropout" in name)
    assert not np.array_equal(outs[0] == 0, outs[1] == 0)
    for name in ("pmap", "vmap", "lockstep"):
        agree(run(name, module, inputs, steps), wanted, name, 1e-4)


def test_what_travels_with_a_replica_axis() -> None:
    """Only differing statistics have a replica axis; synchronized ones and weights have none."""
    module = hand_written(norm=True)
    names = signature_of(parallel(module, 2)).per_replica
    assert names == {"batch_norm_0.w_1", "batch_norm_0.w_2"}
    assert not signature_of(parallel(module, 2, sync_batch_norm=True)).per_replica
    assert not signature_of(parallel(module, 1)).per_replica


@pytest.mark.exhaustive
def test_gradients_that_are_not_summed() -> None:
    """With synchronized norms, unsummed gradients of scale and bias cover a replica's rows."""

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
