"""Batch normalization on several devices, with statistics per device or of all devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable
from graphopt_tests.runtime.nets import Net, build, close, parameter, value

Array = np.ndarray[Any, Any]
RATE = 0.1


def net_with_norm() -> Net:
    """Build x [N, 2] through a layer, a batch norm and a loss that depends on each row."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 2], "float32")
        hidden = paddle.matmul(x, parameter("w", [[1.0, -0.5], [0.5, 2.0]]))
        out = static.nn.batch_norm(hidden, moving_mean_name="mm", moving_variance_name="mv")
        loss = paddle.mean(paddle.square(out - paddle.tanh(x)))
        paddle.optimizer.SGD(RATE).minimize(loss)
        return loss, out

    return build(make)


def batch(count: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    shift = np.linspace(-2, 2, count)[:, None]
    return {"x": (generator.normal(size=(count, 2)) + shift).astype("float32")}


def moved(old: Array | float, batch: Array) -> Array:
    return 0.9 * np.asarray(old) + 0.1 * batch


WEIGHT = np.array([[1.0, -0.5], [0.5, 2.0]])


@pytest.mark.every(2)
@pytest.mark.parametrize(("count", "step"), [(6, 3), (5, 3)])
def test_each_device_has_its_own_statistics(count: int, step: int) -> None:
    """Statistics are never combined; the scope and the test program see device 0's."""
    net = net_with_norm()
    program = net.parallel(2)
    feed = batch(count)
    before = value("w").astype("float64")
    mean, variance = net.run(feed, ("mm", "mv"), program)
    hidden = feed["x"] @ before
    parts = hidden[:step], hidden[step:]
    wanted = [moved(0.0, part.mean(0)) for part in parts]
    close(mean, np.concatenate(wanted))
    close(variance, np.concatenate([moved(1.0, part.var(0)) for part in parts]))
    close(value("mm"), wanted[0])
    close(value("mv"), moved(1.0, parts[0].var(0)))


@pytest.mark.exhaustive
def test_statistics_survive_changes_of_the_batch() -> None:
    """Over even, uneven and test runs, each device keeps its own moving mean."""
    net = net_with_norm()
    program = net.parallel(2)
    test = net.main.clone(for_test=True)
    own: list[Array | float] = [0.0, 0.0]
    for number, count in enumerate((6, 5, 4, 3, 6)):
        feed = batch(count, number)
        hidden = feed["x"] @ value("w").astype("float64")
        step = -(-count // 2)
        own = [moved(own[0], hidden[:step].mean(0)), moved(own[1], hidden[step:].mean(0))]
        (mean,) = net.run(feed, "mm", program)
        close(mean, np.concatenate(own))
        (out,) = net.run(feed, net.out, test)
        hidden = feed["x"] @ value("w").astype("float64")
        normal = (hidden - value("mm")) / np.sqrt(value("mv") + 1e-5)
        close(out, normal * value("batch_norm_0.w_0") + value("batch_norm_0.b_0"), 1e-4)


@pytest.mark.every(4)
@pytest.mark.parametrize("count", [6, 5, 7])
@pytest.mark.parametrize("devices", [2, 3])
def test_sync_equals_the_whole_batch(count: int, devices: int) -> None:
    """With sync_batch_norm every device normalizes by all rows, also of uneven parts."""
    feed = batch(count)
    net = net_with_norm()
    names = (net.out, "mm", "mv")
    out, *wanted = net.run(feed, names)
    net.start()
    found, *state = net.run(feed, names, net.parallel(devices, sync_batch_norm=True))
    close(found, out, 2e-5)
    for merged, whole in zip(state, wanted, strict=True):
        close(merged, np.tile(whole, devices))
    net.start()
    apart = net.run(feed, net.out, net.parallel(devices))[0]
    assert np.abs(apart - out).max() > 0.1


@pytest.mark.every(2)
@pytest.mark.parametrize("devices", [2, 3])
def test_sync_trains_as_one_device(devices: int) -> None:
    """With gradients through common statistics, several steps give the same weights."""
    net = net_with_norm()
    names = [p.name for p in net.main.all_parameters()]
    ends: list[dict[str, Array]] = []
    for program in (None, net.parallel(devices, sync_batch_norm=True)):
        net.start()
        for number in range(3):
            net.run(batch(6, number), (), program)
        ends.append({name: value(name) for name in names})
    for name in names:
        close(ends[1][name], ends[0][name], 2e-5)


def test_sync_weighs_rows_for_statistics_only() -> None:
    """Uneven parts have common statistics, but each device's mean loss has equal weight."""
    net = net_with_norm()
    feed = batch(5)
    gradient = net.run(feed, "w@GRAD", net.parallel(2, sync_batch_norm=True))[0]
    hidden = feed["x"].astype("float64") @ WEIGHT
    scale = 1 / np.sqrt(hidden.var(0) + 1e-5)
    normal = (hidden - hidden.mean(0)) * scale
    error = 2 * (normal - np.tanh(feed["x"])) / 2
    weights = np.array([1 / 3] * 3 + [1 / 2] * 2)[:, None] / 2
    slope = error * weights
    back = scale * (slope - slope.mean(0) - normal * (slope * normal).mean(0))
    close(gradient, np.tile(feed["x"].T @ back, (2, 1)), 2e-5)
