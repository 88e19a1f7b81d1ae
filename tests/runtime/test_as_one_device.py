"""Several devices train as one: with each clip and decay, summed losses, and test programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Program, Variable
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.runtime.nets import (
    build,
    close,
    fc_mean,
    parameter,
    regression,
    regression_feed,
    rows,
    strategy,
    value,
)
from graphopt_tests.runtime.trainings import CLIPS, OPTIMIZERS, same, trained

QUICK = {("SGD", "norm"), ("Momentum", "value"), ("Adam", "global"), ("AdamW", None)}


@pytest.mark.every(3)
@pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
@pytest.mark.parametrize(
    ("name", "clip"),
    [
        pytest.param(name, clip, marks=() if (name, clip) in QUICK else pytest.mark.slow)
        for name in ("SGD", "Momentum", "Adam", "AdamW")
        for clip in (None, *CLIPS)
    ],
)
def test_parameters_after_some_steps(name: str, clip: str | None, reduce: str) -> None:
    """Even parts of a mean loss, with weight decay, train as on one device."""

    def optimizer() -> Any:
        made = CLIPS[clip]() if clip else None
        return OPTIMIZERS[name](0.05, grad_clip=made, weight_decay=0.1)

    net = regression(optimizer)
    program = net.parallel(2, reduce_strategy=BuildStrategy.ReduceStrategy[reduce])
    single = trained(net, net.main, 8, steps=2)
    found = trained(net, program, 8, steps=2)
    # a device's loss is that of its own rows
    found["loss"] = found["loss"].mean(axis=-1)
    single["loss"] = single["loss"].reshape(found["loss"].shape)
    same(found, single, 1e-5)


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_summed_losses(devices: int) -> None:
    """The gradient of a sum over rows is divided by the number of devices, as in Paddle."""
    net = regression(reduce=paddle.sum)
    feed = regression_feed(8)
    (single,) = net.run(feed, "w@GRAD")
    net.start()
    (found,) = net.run(feed, "w@GRAD", net.parallel(devices))
    close(found, np.tile(single / devices, (devices, 1)), 1e-4)


@pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
@pytest.mark.parametrize("shares", [True, False])
def test_test_programs_see_the_latest_weights(shares: bool, reduce: str) -> None:
    """Test programs on every device see each update, with and without share_vars_from."""
    tests: list[Program] = []

    def make() -> tuple[Variable, Variable]:
        x = static.data("X", [None, 1], "float32")
        out = paddle.matmul(x, parameter("w", [[2.0]]))
        loss = paddle.mean(out)
        tests.append(static.default_main_program().clone(for_test=True))
        paddle.optimizer.Momentum(0.1, 0.0).minimize(loss)
        return loss, out

    net = build(make)
    reduction = BuildStrategy.ReduceStrategy[reduce]
    places = static.cpu_places(2)
    train = net.parallel(2, reduce_strategy=reduction)
    net.run(rows(0, 1, 2, 3), (), train)
    test = CompiledProgram(tests[0]).with_data_parallel(
        build_strategy=strategy(reduce_strategy=reduction),
        share_vars_from=train if shares else None,
        places=places,
    )
    for step in range(1, 4):
        (out,) = net.run(rows(1, 1), net.out, test)
        close(out, [[2 - 0.15 * step]] * 2)
        net.run(rows(0, 1, 2, 3), (), train)
    close(value("w"), [[2 - 0.15 * 4]])


def test_golden_reduce() -> None:
    """Reduce gives the recorded losses and weights of AllReduce on two devices."""
    net = fc_mean()
    program = net.parallel(2, reduce_strategy=BuildStrategy.ReduceStrategy.Reduce)
    for step in range(3):
        (loss,) = net.run(rows(0, 1, 2, 3), net.loss, program)
        close(loss, [1 - 0.075 * step, 5 - 0.375 * step])
        close(value("w"), [[1.85 - 0.15 * step]])
