"""The table of Paddle's numbers for X -> fc(w = 2) -> mean with SGD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt.ir.program import Program
from graphopt_tests.runtime.nets import close, fc_mean, rows, value

FEED = rows(0, 1, 2, 3)


def test_plain_losses() -> None:
    """Losses and weights of consecutive steps on one device agree."""
    net = fc_mean()
    losses = [net.run(FEED, net.loss)[0] for _ in range(5)]
    close(losses, [3.0, 2.775, 2.55, 2.325, 2.1])
    close(value("w"), [[2 - 5 * 0.15]])


def test_two_devices() -> None:
    """Losses per device, the averaged gradient, and the gradient of the loss agree."""
    net = fc_mean()
    program = net.parallel(2)
    for step in range(3):
        loss, seed, gradient = net.run(FEED, (net.loss, f"{net.loss.name}@GRAD", "w@GRAD"), program)
        close(loss, [1 - 0.075 * step, 5 - 0.375 * step])
        close(seed, [0.5, 0.5])
        close(gradient, [[1.5], [1.5]])
        close(value("w"), [[1.85 - 0.15 * step]])


@pytest.mark.parametrize(
    ("scale", "feed", "weight", "gradient"),
    [
        ("CoeffNumDevice", {}, -0.5, 2.5),
        ("One", {}, -3.0, 5.0),
        ("Customized", {"{loss}@GRAD": np.array([0.01, 0.03], "float32")}, 1.88, 0.12),
    ],
)
def test_gradient_scale(scale: str, feed: dict[str, Any], weight: float, gradient: float) -> None:
    """The three gradient scales agree, with learning rate 1 and X = 1 .. 4."""
    net = fc_mean(rate=1.0)
    program = net.parallel(2, gradient_scale_strategy=scale)
    extra = {name.format(loss=net.loss.name): array for name, array in feed.items()}
    (found,) = net.run({**rows(1, 2, 3, 4), **extra}, "w@GRAD", program)
    close(found, [[gradient], [gradient]])
    close(value("w"), [[weight]])


@pytest.mark.parametrize(
    ("devices", "count", "losses", "gradient", "weight"),
    [(2, 3, [3, 6], 2.25, -0.25), (4, 7, [3, 7, 11, 14], 4.375, -2.375)],
)
def test_uneven_rows(
    devices: int, count: int, losses: list[float], gradient: float, weight: float
) -> None:
    """The gradient is the mean of the devices' means, not the mean over all rows."""
    net = fc_mean(rate=1.0)
    feed = rows(*range(1, count + 1))
    loss, found = net.run(feed, (net.loss, "w@GRAD"), net.parallel(devices))
    close(loss, losses)
    close(found, [[gradient]] * devices)
    close(value("w"), [[weight]])


def test_reduce_gives_the_same_weights() -> None:
    """Reduce gives the same weights as AllReduce."""
    net = fc_mean(rate=1.0)
    reduce = net.parallel(2)._strategy.ReduceStrategy.Reduce
    net.run(rows(1, 2, 3, 4), net.loss, net.parallel(2, reduce_strategy=reduce))
    close(value("w"), [[-0.5]])


def test_persistable_feed() -> None:
    """A fed parameter has one row for every device, or one for each."""
    net = fc_mean(train=False)
    program = net.parallel(2)
    both = np.array([[5.0], [7.0]], "float32")
    close(net.run({**FEED, "w": both}, net.out, program)[0], [[0], [5], [14], [21]])
    close(net.run({**FEED, "w": both[:1]}, net.out, program)[0], [[0], [5], [10], [15]])
    close(value("w"), [[2.0]])


def test_fed_parameters_of_a_training_program_differ_between_replicas() -> None:
    """Each replica updates its fed value; the scope shows the first one."""
    net = fc_mean()
    program = net.parallel(2)
    both = np.array([[5.0], [7.0]], "float32")
    (merged,) = net.run({**FEED, "w": both}, "w", program)
    close(merged, [[4.85], [6.85]])
    close(value("w"), [[4.85]])


def test_appended_operators_are_invisible() -> None:
    """A compiled program is a snapshot."""
    net = fc_mean(train=False)
    program = net.parallel(2)
    block = net.main.global_block()
    late = block.create_var("late", [-1, 1], "float32")
    block.append_op("scale", {"X": net.out}, {"Out": late}, {"scale": 2.0})
    assert isinstance(net.main, Program)
    with pytest.raises(RuntimeError, match="late"):
        net.run(FEED, "late", program)
    close(net.run(FEED, "late")[0], [[0], [4], [8], [12]])
