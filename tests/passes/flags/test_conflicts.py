"""The interaction of flags: which fusion takes an op, and which flag rules another out.

The order of the passes decides the first, `graphopt.passes.table.flags` the second; `explain`
reports both. Conflicts of the data-parallel flags with data are tested with these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import StrictError
from graphopt.ir.dialect.differentiated import segment_of
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.table.explain import as_text
from graphopt.passes.table.flags import BUILD_FLAGS
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.passes.flags import nets
from graphopt_tests.passes.flags.nets import ops_of, optimized, run, strategy

Build = Callable[[], Any]


def fired(build: Build, **flags: Any) -> dict[str, int]:
    """Count how often each fusion happened with these flags."""
    _, report = optimized(build, **flags)
    kinds = (o.rule for o in report.outcomes if isinstance(o, Applied))
    return dict(Counter(kind for kind in kinds if kind.startswith("fuse")))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("build", "flags", "wanted"),
    [
        # batch_norm + relu goes first, and add + relu finds the residual with the batch_norm
        (
            nets.norm_and_relu,
            ("fuse_bn_act_ops", "fuse_elewise_add_act_ops"),
            {"fuse-bn-act": 1},
        ),
        (
            nets.norm_add_relu,
            ("fuse_bn_act_ops", "fuse_elewise_add_act_ops"),
            {"fuse-bn-add-act": 1},
        ),
        # linear layers before their add + activation
        (
            nets.two_layers,
            ("fuse_gemm_epilogue", "fuse_elewise_add_act_ops"),
            {"fuse-gemm-epilogue": 2},
        ),
        # Paddle has it the other way round, and finds no feed-forward network then
        (
            nets.encoder_layer,
            ("fuse_gemm_epilogue", "fuse_elewise_add_act_ops", "fused_feedforward"),
            {"fused-feedforward": 1, "fuse-gemm-epilogue": 4},
        ),
        (
            nets.encoder_layer,
            ("fused_attention", "fuse_gemm_epilogue"),
            {"fused-attention": 1, "fuse-gemm-epilogue": 2},
        ),
        # sgd is not adamw
        (
            nets.two_layers,
            ("fuse_adamw", "fuse_all_optimizer_ops"),
            {"fuse-all-optimizer-ops": 1},
        ),
        (
            nets.residual_units,
            ("fuse_resunit", "fuse_bn_act_ops"),
            {"fuse-resunit": 2},
        ),
        # what comes later than fusions changes none
        (
            nets.two_layers,
            ("fuse_gemm_epilogue", "enable_sequential_execution", "memory_optimize"),
            {"fuse-gemm-epilogue": 2},
        ),
        (
            nets.two_layers,
            ("fuse_gemm_epilogue", "enable_auto_fusion", "fix_op_run_order"),
            {"fuse-gemm-epilogue": 2},
        ),
    ],
)
def test_who_takes_what(build: Build, flags: tuple[str, ...], wanted: dict[str, int]) -> None:
    """The larger pattern wins, in whatever order the flags are set."""
    for order in (flags, flags[::-1]):
        assert fired(build, **dict.fromkeys(order, True)) == wanted


@pytest.mark.parametrize("flag", ["fuse_bn_act_ops", "fuse_bn_add_act_ops", "fuse_resunit"])
def test_synchronised_norms_are_not_fused(flag: str) -> None:
    """sync_batch_norm comes first, and the fusions of batch norms decline with a reason."""
    build = nets.norm_and_relu if flag == "fuse_bn_act_ops" else nets.residual_units
    module, report = optimized(build, replicas=2, sync_batch_norm=True, **{flag: True})
    assert str(module).count("sync = true") == ops_of(module)["batch_norm"] >= 1
    assert "switch off sync_batch_norm" in as_text(report, flag)


def test_a_finalised_strategy_synchronises() -> None:
    """A finalized strategy can synchronize norms; Paddle fails, as it would set another flag."""
    made = strategy(sync_batch_norm=True)
    made._finalize_strategy_and_create_passes()
    with fresh() as (main, startup):
        loss = paddle.mean(nets.norm_and_relu())
        paddle.optimizer.SGD(0.1).minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        program = static.CompiledProgram(main).with_data_parallel(
            loss_name=loss.name, build_strategy=made, places=static.cpu_places(2)
        )
        feed = {"images": np.ones((4, 4, 6, 6), "float32")}
        executor.run(program, feed, [loss])
        assert program.explanations()[0].flags["sync_batch_norm"].status == "applied"


def settings_for(flag: str) -> dict[str, Any]:
    """Return the settings of a strategy that rules a flag out."""
    rules: dict[str, dict[str, Any]] = {
        "fuse_all_optimizer_ops": {"reduce_strategy": "Reduce"},
        "fuse_all_reduce_ops": {"reduce_strategy": "Reduce"},
        "fuse_broadcast_ops": {"reduce_strategy": "AllReduce"},
        "sequential_run": {"enable_sequential_execution": True},
        "enable_auto_fusion": {"build_cinn_pass": True},
    }
    return {flag: True, **rules[flag]}


# what shares state: see distributed/test_job.py
@pytest.mark.parametrize(
    "flag",
    [
        name
        for name, flag in BUILD_FLAGS.items()
        if flag.ruled_out and name not in ("reduce_strategy", "shard_parameters")
    ],
)
def test_what_is_ruled_out_is_refused(flag: str) -> None:
    """`explain` names the other flag, and strict raises; Paddle drops the flag silently."""
    given = settings_for(flag)
    (other,) = given.keys() - {flag}
    _, report = optimized(nets.two_layers, replicas=2, **given)
    assert f"{flag}: refused because" in as_text(report)
    assert other in as_text(report, flag)
    with fresh() as (main, _):
        loss = paddle.mean(nets.two_layers())
        paddle.optimizer.SGD(0.1).minimize(loss)
        with pytest.raises(StrictError, match=f"{flag}: refused"):
            paddle.explain(main, strategy(**given), [loss], strict=True)
    # reading the strategy tells what was set, as in Paddle
    assert getattr(strategy(**given), flag) is True


@pytest.mark.exhaustive
def test_memory_flags_leave_every_value_fetchable() -> None:
    """Temporaries that are recomputed or overwritten can be fetched, with the same bits."""

    def fetched(**flags: Any) -> list[Any]:
        with fresh() as (main, startup):
            paddle.seed(3)
            loss = paddle.mean(nets.deep(4, 8))
            paddle.optimizer.SGD(0.1).minimize(loss)
            executor = static.Executor(paddle.CPUPlace())
            executor.run(startup)
            names = [v.name for v in main.list_vars() if v.name.endswith((".tmp_0", ".tmp_1"))]
            program = static.CompiledProgram(main, strategy(**flags))
            feed = {"x": np.random.default_rng(0).standard_normal((4, 8)).astype("float32")}
            return executor.run(program, feed, names)

    plain = fetched(enable_inplace=False)
    assert len(plain) > 8
    found = fetched(enable_inplace=True, enable_addto=True, memory_optimize=True)
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_flags_set_after_compiling_change_nothing() -> None:
    """The first run copies the strategy, whose object may serve another program."""
    made = BuildStrategy()
    with fresh() as (main, startup):
        loss = paddle.mean(nets.linear_relu())
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        program = static.CompiledProgram(main, made)
        feed = {"x": np.ones((2, 8), "float32")}
        executor.run(program, feed, [loss])
        made.fuse_gemm_epilogue = True
        executor.run(program, {"x": np.ones((3, 8), "float32")}, [loss])
        assert all(e.applied("fuse-gemm-epilogue") == 0 for e in program.explanations())
        again = static.CompiledProgram(main, made)
        executor.run(again, feed, [loss])
        assert again.explanations()[0].applied("fuse-gemm-epilogue") == 1


def test_sums_in_order_with_everything_else() -> None:
    """One program can have the fence of several trainers and a fence before every later sum."""
    module, _ = optimized(
        nets.two_layers,
        replicas=2,
        enable_sequential_execution=True,
        num_trainers=2,
        fuse_all_reduce_ops=False,
    )
    assert ops_of(module)["fence"] == 4


@pytest.mark.exhaustive
@pytest.mark.parametrize(("devices", "rows"), [(2, 3), pytest.param(6, 12, marks=pytest.mark.slow)])
def test_memory_flags_on_several_devices(devices: int, rows: int) -> None:
    """Uneven replicas, and more replicas than devices, give the same losses."""
    flags = {"memory_optimize": True, "enable_addto": True}

    def build() -> Any:
        return nets.deep(4, 8)

    losses, _, (module, _) = run(build, devices, rows=rows, **flags)
    plain, _, _ = run(build, devices, rows=rows)
    assert any(segment_of(op) is not None for op in module.walk())
    for a, b in zip(losses, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
