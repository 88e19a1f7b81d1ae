"""fuse_all_optimizer_ops and fuse_adamw: one op for each group, and the same training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.passes.table.explain import REFUSED
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.runtime.nets import strategy as with_flags

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")


def train(make: Callable[[], Any], devices: int = 1, **flags: Any) -> tuple[list[Array], Any]:
    """Train a net with two layers for three steps; return parameters, moments and the report."""
    with fresh():
        x = static.data("x", [None, 4], "float32")
        static.default_startup_program().random_seed = 7
        hidden = static.nn.fc(x, 8, activation="relu")
        loss = paddle.mean(paddle.square(static.nn.fc(hidden, 1)))
        make().minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(static.default_startup_program())
        main, strategy = static.default_main_program(), with_flags(**flags)
        program = static.CompiledProgram(main, strategy)
        if devices > 1:
            program = static.CompiledProgram(main).with_data_parallel(
                loss_name=loss.name, build_strategy=strategy, places=static.cpu_places(devices)
            )
        for _ in range(3):
            exe.run(program, feed={"x": X}, fetch_list=[loss])
        state = [v for v in main.list_vars() if v.persistable]
        found = [static.global_scope().find_var(v.name) for v in state]
        (report,) = program.explanations()
        return [slot.numpy() for slot in found if slot is not None], report


KINDS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "sgd": (lambda: paddle.optimizer.SGD(0.1), "fuse_all_optimizer_ops", "pd.fused_sgd"),
    "momentum": (
        lambda: paddle.optimizer.Momentum(0.1, 0.9),
        "fuse_all_optimizer_ops",
        "pd.fused_momentum",
    ),
    "adam": (lambda: paddle.optimizer.Adam(0.1), "fuse_all_optimizer_ops", "pd.fused_adam_"),
    "adamw": (lambda: paddle.optimizer.AdamW(0.1), "fuse_adamw", "pd.fused_adam_"),
}


@pytest.mark.every(4)
@pytest.mark.parametrize("kind", KINDS)
def test_four_updates_are_one(kind: str) -> None:
    """Two layers have four parameters, whose updates become one op with the same results."""
    make, flag, fused = KINDS[kind]
    plain, _ = train(make)
    found, report = train(make, **{flag: True})
    after = report.to_json()["ops"]["after"]
    assert after[fused] == 1
    assert f"pd.{kind}" not in after
    assert report.flags[flag].status == "applied"
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.exhaustive
def test_parameters_without_decay_are_a_group() -> None:
    """Biases without weight decay have other properties, so their updates are a separate op."""

    def make() -> Any:
        return paddle.optimizer.AdamW(
            0.1, weight_decay=0.1, apply_decay_param_fun=lambda name: ".w_" in name
        )

    plain, _ = train(make)
    found, report = train(make, fuse_adamw=True)
    assert report.to_json()["ops"]["after"]["pd.fused_adam_"] == 2
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.exhaustive
def test_on_several_devices() -> None:
    """The sums of gradients precede the update; under Reduce the flag is reported as off."""
    make = KINDS["adam"][0]
    plain, _ = train(make, devices=2)
    found, report = train(make, devices=2, fuse_all_optimizer_ops=True)
    after = report.to_json()["ops"]["after"]
    assert (after["pd.fused_adam_"], after["pd.all_reduce"]) == (1, 2)
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    reduce = static.BuildStrategy.ReduceStrategy.Reduce
    with pytest.warns(UserWarning, match="switches this flag off"):
        _, report = train(make, devices=2, fuse_all_optimizer_ops=True, reduce_strategy=reduce)
    result = report.flags["fuse_all_optimizer_ops"]
    assert (result.status, "switches this flag off" in result.text) == (REFUSED, True)


def many(devices: int, **flags: Any) -> tuple[dict[str, Array], Any]:
    """Train a model with nine small weights; return its state and the optimized module."""
    with fresh():
        x = static.data("x", [None, 4], "float32")
        static.default_startup_program().random_seed = 7
        weights = [static.create_parameter([4, 4], "float32") for _ in range(9)]
        loss = paddle.add_n([paddle.mean(paddle.square(paddle.matmul(x, w))) for w in weights])
        paddle.optimizer.AdamW(0.1).minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(static.default_startup_program())
        main, strategy = static.default_main_program(), with_flags(**flags)
        program = static.CompiledProgram(main).with_data_parallel(
            loss_name=loss.name, build_strategy=strategy, places=static.cpu_places(devices)
        )
        for _ in range(3):
            exe.run(program, feed={"x": X}, fetch_list=[loss])
        found = {v.name: static.global_scope().find_var(v.name) for v in main.list_vars()}
        (compiled,) = program._compiled_programs()
        return {name: slot.numpy() for name, slot in found.items() if slot is not None}, compiled


@pytest.mark.every(2)
@pytest.mark.parametrize("devices", [1, 2])
def test_small_parameters_lie_in_stacks(devices: int) -> None:
    """With fuse_adamw, each kind of state is one array, with one sum over devices; same numbers."""
    stacked, compiled = many(devices, fuse_adamw=True)
    plain, _ = many(devices)
    assert len(compiled.plan.updated) == 5
    assert all(len(port.stack_of) == 9 for port in compiled.plan.updated)
    assert compiled.report.after["pd.all_reduce"] == (devices > 1)
    assert stacked.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(stacked[name], value, rtol=1e-6, atol=1e-7)
