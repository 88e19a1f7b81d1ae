"""Optimizers around others: gradient merging, recomputation, lookahead, averages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import UnsupportedError
from graphopt.static import amp
from graphopt_tests.frontend import mixed_networks as networks
from graphopt_tests.frontend.programs import fresh, run, start, types

RECORDED = json.loads((Path(__file__).parents[1] / "data/wrapping_optimizers.json").read_text())
wrapping = paddle.incubate.optimizer
Steps = Callable[[Any, Any], Any]
"""Appends the updates for a loss and a hidden value; returns an average, or None."""


def sgd() -> Any:
    return paddle.optimizer.SGD(0.2)


def adam() -> Any:
    clip = paddle.nn.ClipGradByGlobalNorm(0.5)
    return paddle.optimizer.Adam(0.02, grad_clip=clip, weight_decay=0.01)


def fluid_adam() -> Any:
    clip, decay = fluid.clip.GradientClipByGlobalNorm(0.5), fluid.regularizer.L2Decay(0.01)
    return fluid.optimizer.Adam(0.02, grad_clip=clip, regularization=decay)


def by(make: Callable[[], Any]) -> Steps:
    """Steps of an optimizer."""
    return lambda loss, hidden: make().minimize(loss) and None


def recomputing(home: Any, optimizer: Callable[[], Any]) -> Steps:
    def steps(loss: Any, hidden: Any) -> None:
        made = home.RecomputeOptimizer(optimizer())
        made._set_checkpoints([hidden])
        made.minimize(loss)

    return steps


def averaging(make: Callable[[], Any], *, update: bool = False) -> Steps:
    def steps(loss: Any, hidden: Any) -> Any:
        sgd().minimize(loss)
        made = make()
        if update:
            made.update()
        return made

    return steps


def merged_amp(loss: Any, hidden: Any) -> None:
    lists = amp.CustomOpLists(custom_black_list=["mul", "elementwise_add", "relu"])
    scaled = amp.decorate(adam(), lists, init_loss_scaling=64.0, incr_every_n_steps=2)
    wrapping.GradientMergeOptimizer(scaled, 2, avg=True).minimize(loss)


def counted_average() -> Any:
    steps = fluid.layers.learning_rate_scheduler._decay_step_counter()
    return fluid.optimizer.ExponentialMovingAverage(0.99, steps)


merge, look = wrapping.GradientMergeOptimizer, wrapping.LookAhead
window = {"min_average_window": 2, "max_average_window": 5}
CASES: dict[tuple[str, str], Steps] = {
    ("2.6.2", "gm sgd 3 avg"): by(lambda: merge(sgd(), 3, True)),
    ("2.6.2", "gm adam 2 sum"): by(lambda: merge(adam(), 2, False)),
    ("2.6.2", "gm adam 4 avg"): by(lambda: merge(adam(), 4, True)),
    ("2.6.2", "gm amp"): merged_amp,
    ("2.6.2", "recompute sgd"): recomputing(wrapping, sgd),
    ("2.6.2", "recompute adam"): recomputing(wrapping, adam),
    ("2.6.2", "lookahead"): by(lambda: look(sgd(), alpha=0.5, k=3)),
    ("2.6.2", "lookahead adam"): by(lambda: look(adam(), alpha=0.2, k=2)),
    ("2.6.2", "model average"): averaging(lambda: wrapping.ModelAverage(0.15, **window)),
    ("2.6.2", "ema"): averaging(lambda: static.ExponentialMovingAverage(0.9), update=True),
    ("1.8.5", "recompute sgd"): recomputing(fluid.optimizer, lambda: fluid.optimizer.SGD(0.2)),
    ("1.8.5", "recompute adam"): recomputing(fluid.optimizer, fluid_adam),
    ("1.8.5", "lookahead"): by(lambda: fluid.optimizer.LookaheadOptimizer(sgd(), 0.5, 3)),
    ("1.8.5", "lookahead adam"): by(
        lambda: fluid.optimizer.LookaheadOptimizer(fluid_adam(), 0.2, 2)
    ),
    ("1.8.5", "model average"): averaging(lambda: fluid.optimizer.ModelAverage(0.15, **window)),
    ("1.8.5", "ema"): averaging(lambda: fluid.optimizer.ExponentialMovingAverage(0.9), update=True),
    ("1.8.5", "ema steps"): averaging(counted_average, update=True),
}
USUAL = ("gm adam 2 sum", "recompute adam", "lookahead adam", "gm amp")


def hidden_net(x: Any, y: Any) -> tuple[Any, Any]:
    """A loss and its hidden value."""
    hidden = static.nn.fc(x, 16, activation="relu", weight_attr=networks.attr("w1", (8, 16), 1))
    logits = static.nn.fc(hidden, 10, weight_attr=networks.attr("w2", (16, 10), 2))
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, y)), hidden


def made(steps: Steps, batch: int | None = 4) -> tuple[Any, Any, Any]:
    """The loss, a program that evaluates it, and the average of these steps."""
    x, y = static.data("x", [batch, 8]), static.data("y", [batch, 1], "int64")
    loss, hidden = hidden_net(x, y)
    test = static.default_main_program().clone(for_test=True)
    return loss, test, steps(loss, hidden)


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if c[1] in USUAL else pytest.mark.exhaustive) for c in CASES]
)
def test_losses_are_paddles(case: tuple[str, str]) -> None:
    """Twelve steps; then the loss with the average, and with the parameters again."""
    with fresh():
        loss, test, average = made(CASES[case])
        start()
        found = [float(np.ravel(run([loss], **networks.batch(n))[0])[0]) for n in range(12)]
        if average is not None:
            executor = static.Executor(paddle.CPUPlace())
            feed = networks.batch(0)
            with average.apply(executor):
                found.append(float(np.ravel(executor.run(test, feed, [loss])[0])[0]))
            found.append(float(np.ravel(executor.run(test, feed, [loss])[0])[0]))
    np.testing.assert_allclose(found, RECORDED[case[0]][case[1]], rtol=2e-6)


def test_a_program_with_checkpoints_recomputes() -> None:
    """Without a strategy, too; a program without checkpoints keeps its activations."""
    for steps, recomputes in ((recomputing(wrapping, sgd), True), (by(sgd), False)):
        with fresh() as (main, _):
            loss, _, _ = made(steps)
            compiled = static.CompiledProgram(main)
            start()
            static.Executor(paddle.CPUPlace()).run(compiled, networks.batch(0), [loss])
            assert ("pd.recompute" in compiled.text()) == recomputes
            report = paddle.explain(main, fetch_list=[loss])
            assert ("recompute-activations" in str(report)) == recomputes


def test_recompute_needs_checkpoints() -> None:
    """They are variables or names; offloading and loading are refused."""
    optimizer = wrapping.RecomputeOptimizer(sgd())
    with fresh():
        loss, hidden = hidden_net(static.data("x", [4, 8]), static.data("y", [4, 1], "int64"))
        with pytest.raises(AssertionError, match="_set_checkpoints first"):
            optimizer.minimize(loss)
        with pytest.raises(AssertionError, match="should be a list"):
            optimizer._set_checkpoints(hidden)
        with pytest.raises(UnsupportedError, match="_enable_offload"):
            optimizer._enable_offload()
        with pytest.raises(NotImplementedError, match="is not supported by Recompute"):
            optimizer.load({})
        optimizer._set_checkpoints(["nowhere"])
        with pytest.raises(ValueError, match="'nowhere' in checkpoints"):
            optimizer.minimize(loss)


def test_devices_merge_gradients() -> None:
    """Two devices with half a batch each train as one with the whole."""
    losses: list[Any] = []
    for count in (1, 2):
        with fresh() as (main, _):
            loss, _, _ = made(by(lambda: merge(sgd(), 2, True)), None)
            start()
            places = static.cpu_places(count)
            program = static.CompiledProgram(main).with_data_parallel(loss.name, places=places)
            executor = static.Executor(paddle.CPUPlace())
            rows = [executor.run(program, networks.batch(0), [loss])[0] for _ in range(5)]
            losses.append([row.mean() for row in rows])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert losses[0][0] == losses[0][1] != losses[0][2]


def test_merging_refuses_sparse_gradients() -> None:
    """And arguments that Paddle refuses."""
    with fresh():
        ids = static.data("ids", [4], "int64")
        loss = paddle.mean(static.nn.embedding(ids, [10, 2], is_sparse=True))
        optimizer = merge(sgd(), 2)
        with pytest.raises(AssertionError, match="sparse=False"):
            optimizer.minimize(loss)
        with pytest.raises(AssertionError, match="parameter_list should be None"):
            optimizer.minimize(loss, parameter_list=[])
        with pytest.raises(AssertionError, match="positive integer"):
            merge(sgd(), 0)


def test_fluid_optimizers_without_their_effect() -> None:
    """Gradient compression warns, and pipelines are refused."""
    with pytest.warns(UserWarning, match="gradients are not compressed"):
        optimizer = fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0)
    with fresh() as (main, _):
        made(by(lambda: optimizer))
        assert types(main)[-1] == "momentum"
    with pytest.raises(UnsupportedError, match="use grad_clip"):
        fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0, local_grad_clip_norm=1.0)
    with pytest.raises(UnsupportedError, match="with_data_parallel"):
        fluid.optimizer.PipelineOptimizer(sgd())
