"""with_data_parallel(sample_weighted=True) weights devices by their rows, unlike Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.program import Variable
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.runtime.nets import (
    Net,
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


def weighted(net: Net, devices: int, **flags: Any) -> CompiledProgram:
    """Compile the program for several devices, weighted by their rows."""
    return CompiledProgram(net.main).with_data_parallel(
        net.loss.name,
        strategy(**flags),
        places=static.cpu_places(devices),
        sample_weighted=True,
    )


@pytest.mark.parametrize(
    ("devices", "count", "gradient", "seeds"),
    [
        (2, 3, 2.0, [2 / 3, 1 / 3]),
        (4, 7, 4.0, [2 / 7, 2 / 7, 2 / 7, 1 / 7]),
        (2, 4, 2.5, [0.5, 0.5]),
    ],
)
def test_uneven_rows(devices: int, count: int, gradient: float, seeds: list[float]) -> None:
    """The gradient equals one device's with all rows; the loss's gradients show the weights."""
    net = fc_mean(rate=1.0)
    program = weighted(net, devices)
    feed = rows(*range(1, count + 1))
    found, seed = net.run(feed, ("w@GRAD", f"{net.loss.name}@GRAD"), program)
    close(found, [[gradient]] * devices)
    close(seed, seeds)
    close(value("w"), [[2.0 - gradient]])


@pytest.mark.every(5)
@pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
@pytest.mark.parametrize(("devices", "count"), [(3, 7), (4, 8), (6, 11)])
def test_as_one_device(reduce: str, devices: int, count: int) -> None:
    """Losses that are means over rows train as on one device, whatever the chunks."""
    net = regression(lambda: paddle.optimizer.Adam(0.1))
    program = weighted(net, devices, reduce_strategy=BuildStrategy.ReduceStrategy[reduce])
    for step in range(3):
        net.run(regression_feed(count, seed=step), (), program)
    found = value("w")
    net.start()
    for step in range(3):
        net.run(regression_feed(count, seed=step))
    np.testing.assert_allclose(found, value("w"), 1e-5, 1e-5)


def test_without_it_the_devices_count_alike() -> None:
    """By Paddle's rule, the mean of the devices' means is not the mean over all rows."""
    net = fc_mean(rate=1.0)
    (found,) = net.run(rows(1, 2, 3), "w@GRAD", net.parallel(2))
    close(found, [[2.25], [2.25]])


def test_it_needs_an_average() -> None:
    """One and Customized set the weight of each device themselves, and are refused."""
    net = fc_mean()
    with pytest.raises(ValueError, match=r"sample_weighted requires .* CoeffNumDevice"):
        net.run(rows(1, 2, 3), (), weighted(net, 2, gradient_scale_strategy="One"))


def test_it_needs_rows() -> None:
    """A program whose feeds all have fixed sizes has no rows to count, and is refused."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [2, 1], "float32")
        out = paddle.matmul(x, parameter("w", [[1.0]]))
        loss = paddle.mean(out)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return loss, out

    net = build(make)
    with pytest.raises(UnsupportedError, match="number of rows is not fixed"):
        net.run({"x": np.ones((4, 1), "float32")}, (), weighted(net, 2))
