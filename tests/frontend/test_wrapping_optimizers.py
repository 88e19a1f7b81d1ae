"""Optimizers around others: gradient merging, recomputation, lookahead, averages."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.distributed import fleet
from graphopt.errors import UnsupportedError
from graphopt.static import amp
from graphopt_tests.frontend import mixed_networks as networks
from graphopt_tests.frontend.programs import fresh, run, start, types, weight

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
    """Return a function that minimizes by the optimizer of `make`."""
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
    """Build a loss; return it and its hidden value."""
    hidden = static.nn.fc(x, 16, activation="relu", weight_attr=networks.attr("w1", (8, 16), 1))
    logits = static.nn.fc(hidden, 10, weight_attr=networks.attr("w2", (16, 10), 2))
    return paddle.mean(paddle.nn.functional.cross_entropy(logits, y)), hidden


def made(steps: Steps, batch: int | None = 4) -> tuple[Any, Any, Any]:
    """Build and minimize a loss; return it, a program that evaluates it, and the average."""
    x, y = static.data("x", [batch, 8]), static.data("y", [batch, 1], "int64")
    loss, hidden = hidden_net(x, y)
    test = static.default_main_program().clone(for_test=True)
    return loss, test, steps(loss, hidden)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if c[1] in USUAL else pytest.mark.exhaustive) for c in CASES]
)
def test_losses_are_paddles(case: tuple[str, str]) -> None:
    """Twelve losses are Paddle's, and so are those with the average and the parameters again."""
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


@pytest.mark.exhaustive
def test_a_program_with_checkpoints_recomputes() -> None:
    """Recomputation needs no strategy; a program without checkpoints keeps its activations."""
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
    """Checkpoints are variables or names; offloading and loading are refused."""
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


@pytest.mark.exhaustive
def test_devices_merge_gradients() -> None:
    """Two devices with half a batch each train as one with the whole batch."""
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
    """Sparse gradients, and arguments that Paddle refuses, are refused."""
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


def by_amp(level: str) -> Callable[[Any, Any], Any]:
    def wrap(optimizer: Any, hidden: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return amp.decorate(optimizer, level=level, init_loss_scaling=8.0)

    return wrap


def by_recompute(optimizer: Any, hidden: Any) -> Any:
    made = wrapping.RecomputeOptimizer(optimizer)
    made._set_checkpoints([hidden])
    return made


def by_fleet(**strategy: bool) -> Callable[[Any, Any], Any]:
    def wrap(optimizer: Any, hidden: Any) -> Any:
        chosen = fleet.DistributedStrategy()
        chosen.gradient_merge_configs = {"k_steps": 2, "avg": True}
        for name, value in strategy.items():
            setattr(chosen, name, value)
        return fleet.distributed_optimizer(optimizer, chosen)

    return wrap


WRAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "look": lambda optimizer, hidden: look(optimizer, 0.5, 2),
    "merge": lambda optimizer, hidden: merge(optimizer, 2),
    "recompute": by_recompute,
    "O1": by_amp("O1"),
    "O2": by_amp("O2"),
    "OD": by_amp("OD"),
    "bf16": lambda optimizer, hidden: amp.bf16.decorate_bf16(optimizer),
    "amp 1.8": lambda optimizer, hidden: fluid.contrib.mixed_precision.decorate(optimizer, None, 8),
    "fleet merge": by_fleet(gradient_merge=True),
    "fleet amp": by_fleet(amp=True),
    "look 1.8": lambda optimizer, hidden: fluid.optimizer.LookaheadOptimizer(optimizer, 0.5, 2),
}
HALF = ("O1", "O2", "OD", "bf16", "amp 1.8", "fleet amp")
MERGES = ("merge", "fleet merge")
LOOKS = ("look", "look 1.8")


def refusal(outer: str, inner: str = "") -> str | None:
    """Return the reason why a wrapper cannot contain another, or None."""
    if outer in HALF and inner in HALF:
        return "has mixed precision already"
    if outer in MERGES and inner in MERGES:
        return "has merged gradients already"
    if outer == "look" and inner not in ("", "look"):
        return "put LookAhead inside of that"
    if outer == inner == "look 1.8":
        return "has slow weights already"
    if inner == "look 1.8":
        return "put .* inside of it"
    return None


ROWS = np.random.RandomState(3).uniform(-1, 1, (6, 4, 3)).astype("float32")
LABELS = ROWS.sum(2, keepdims=True) * np.float32(0.5)


def by_hand(wrappers: tuple[str, ...]) -> list[float]:
    """Compute the losses of six steps of momentum, with merged gradients and slow weights.

    Slow weights start as the first fast ones and follow every second update; those of 1.8 start as
    the parameters do, and follow in every second run.
    """
    weight, velocity, total = np.ones((3, 1)), np.zeros((3, 1)), np.zeros((3, 1))
    looks = [name for name in reversed(wrappers) if name in LOOKS]
    slows = [weight if name == "look 1.8" else None for name in looks]
    merges = not set(MERGES).isdisjoint(wrappers)
    losses: list[float] = []
    updates = 0
    for step, (rows, labels) in enumerate(zip(ROWS, LABELS, strict=True), 1):
        error = rows @ weight - labels
        losses.append(float(np.mean(error**2)))
        total = total + rows.T @ error / 2
        if merges and step % 2 == 1:
            continue
        velocity = velocity * 0.5 + total / (2 if merges else 1)
        weight, total, updates = weight - 0.2 * velocity, np.zeros((3, 1)), updates + 1
        for level, name in enumerate(looks):
            slow = slows[level]
            slow = weight if slow is None else slow
            if (step if name == "look 1.8" else updates) % 2 == 0:
                weight = slow = (weight + slow) / 2
            slows[level] = slow
    return losses


def trained(wrappers: tuple[str, ...], *, in_two_steps: bool = False) -> list[float]:
    """Return the losses of six steps of momentum in these wrappers, the outermost first."""
    with fresh():
        x, y = static.data("x", [4, 3]), static.data("y", [4, 1])
        hidden = paddle.matmul(x, weight("w", np.ones((3, 1))))
        loss = paddle.mean(paddle.square(hidden - y))
        made: Any = paddle.optimizer.Momentum(0.2, 0.5)
        halves = []
        for name in reversed(wrappers):
            made = WRAPPERS[name](made, hidden)
            halves += [made] if name == "O2" else []
        if in_two_steps:
            made.apply_gradients(made.backward(loss))
        else:
            made.minimize(loss)
        start()
        for half in halves:
            half.amp_init(paddle.CPUPlace())
        feeds = zip(ROWS, LABELS, strict=True)
        return [float(np.ravel(run([loss], x=rows, y=labels)[0])[0]) for rows, labels in feeds]


PAIRS = [(outer, inner) for outer in WRAPPERS for inner in WRAPPERS]
SHORT = {("O1", "look"), ("merge", "O2"), ("look", "look"), ("recompute", "merge")}


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=() if refusal(*pair) or pair in SHORT else pytest.mark.exhaustive)
        for pair in [*((name,) for name in WRAPPERS), *PAIRS]
    ],
    ids=" ".join,
)
def test_wrappers_in_wrappers(pair: tuple[str, ...]) -> None:
    """Each pair in both orders is refused by name, or equals the computation by hand.

    Where Paddle takes the pair, Paddle's recorded losses agree, too.
    """
    fleet.init(is_collective=True)
    reason = refusal(*pair)
    if reason is not None:
        with pytest.raises(TypeError, match=reason):
            trained(pair)
        return
    expected = by_hand(pair)
    if " ".join(pair) in RECORDED["nested in 2.6.2"]:
        recorded = RECORDED["nested in 2.6.2"][" ".join(pair)]
        np.testing.assert_allclose(expected, recorded, rtol=1e-5, atol=1e-6)
    tolerance = 5e-6 if set(HALF).isdisjoint(pair) else 0.02
    np.testing.assert_allclose(trained(pair), expected, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", ["look", "merge", "fleet merge"])
def test_wrappers_by_backward_and_apply_gradients(name: str) -> None:
    """backward and apply_gradients together do what `minimize` does."""
    fleet.init(is_collective=True)
    np.testing.assert_allclose(trained((name,), in_two_steps=True), by_hand((name,)), rtol=5e-6)


def test_two_optimizers_merge_by_their_own_count() -> None:
    """Each optimizer of a program counts; with Paddle's names they would share one count."""
    with fresh() as (main, _):
        a, b = weight("a", [1.0]), weight("b", [1.0])
        for parameter, k in ((a, 2), (b, 3)):
            merge(paddle.optimizer.SGD(0.25, parameters=[parameter]), k).minimize(
                paddle.sum(parameter * 1.0)
            )
        assert main.global_block().has_var("gradient_merge_step")
        start()
        found: list[list[float]] = []
        for _ in range(6):
            run()
            found.append([float(p.get_value().numpy()[0]) for p in (a, b)])
    assert found == [[1, 1], [0.75, 1], [0.75, 0.75], [0.5, 0.75], [0.5, 0.75], [0.25, 0.5]]
