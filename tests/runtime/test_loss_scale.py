"""The seed of the derivative: gradient_scale_strategy."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, WorldError
from graphopt.ir.program import Program, Variable
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
    write,
)

FEED = rows(1, 2, 3, 4)


def seeded(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, "float32")


def test_the_page_example() -> None:
    """Customized works on a compiled program of one device, as in the page's example."""
    main, startup = Program(), Program()
    with static.program_guard(main, startup):
        data = static.data(name="X", shape=[None, 1], dtype="float32")
        hidden = static.nn.fc(data, size=10)
        loss = paddle.mean(hidden)
        paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(static.default_startup_program())
        build_strategy = static.BuildStrategy()
        build_strategy.gradient_scale_strategy = (
            static.BuildStrategy.GradientScaleStrategy.Customized
        )
        compiled = static.CompiledProgram(main, build_strategy=build_strategy)
        before = value("fc_0.w_0")
        x = np.random.default_rng(0).random(size=(10, 1)).astype("float32")
        found, grad = exe.run(
            compiled,
            feed={"X": x, loss.name + "@GRAD": np.ones(1).astype("float32") * 0.01},
            fetch_list=[loss.name, loss.name + "@GRAD"],
        )
    close(found, np.mean(x @ before))
    close(grad, 0.01)
    close(value("fc_0.w_0"), before - 0.01 * 0.01 * x.mean() / 10, 1e-6)


@pytest.mark.parametrize("devices", [0, 1])
@pytest.mark.parametrize("scale", ["CoeffNumDevice", "One", "Customized"])
def test_one_device(scale: str, devices: int) -> None:
    """On one device the coefficient is 1, and a fed gradient is used, too."""
    net = fc_mean()
    if devices:
        program = net.parallel(1, gradient_scale_strategy=scale)
    else:
        program = static.CompiledProgram(net.main, strategy(gradient_scale_strategy=scale))
    factor = 3.0 if scale == "Customized" else 1.0
    extra = {f"{net.loss.name}@GRAD": seeded([3.0])} if scale == "Customized" else {}
    net.run({**FEED, **extra}, net.loss, program)
    close(value("w"), [[2 - 0.1 * factor * 2.5]])


@pytest.mark.every(3)
@pytest.mark.parametrize("devices", [1, 2, 4])
def test_sum_losses_are_divided(devices: int) -> None:
    """CoeffNumDevice gives 1 / D of a summed loss's gradient; One gives all of it."""
    feed = regression_feed(4)
    wanted = regression(reduce=paddle.sum).run(feed, "w@GRAD")[0]
    for scale, factor in (("CoeffNumDevice", 1 / devices), ("One", 1.0)):
        net = regression(reduce=paddle.sum)
        program = net.parallel(devices, gradient_scale_strategy=scale)
        (found,) = net.run(feed, "w@GRAD", program)
        close(found, np.tile(wanted * factor, (devices, 1)))


def test_trainers_have_to_be_there() -> None:
    """Dividing by trainers that were not started would give wrong gradients, and is refused."""
    net = fc_mean()
    with pytest.raises(WorldError, match="num_trainers is 4, but this process has joined no job"):
        net.run(FEED, net.loss, net.parallel(2, num_trainers=4))


@pytest.mark.parametrize("count", [4, 3])
def test_each_device_has_its_own_gradient(count: int) -> None:
    """Customized works with even and uneven batches; a fetch shows the fed value."""
    net = fc_mean(rate=1.0)
    program = net.parallel(2, gradient_scale_strategy="Customized")
    name = f"{net.loss.name}@GRAD"
    feed = {**rows(*range(1, count + 1)), name: seeded([0.1, 0.3])}
    shown, gradient = net.run(feed, (name, "w@GRAD"), program)
    wanted = 0.1 * 1.5 + 0.3 * (3.5 if count == 4 else 3.0)
    close(shown, [0.1, 0.3])
    close(gradient, [[wanted]] * 2)


def test_list_feeds_with_gradients() -> None:
    """Each element brings its device's gradient of the loss."""
    net = fc_mean(rate=1.0)
    program = net.parallel(2, gradient_scale_strategy="Customized")
    name = f"{net.loss.name}@GRAD"
    feeds = [{**rows(1, 2), name: seeded([0.01])}, {**rows(3, 4), name: seeded([0.03])}]
    net.run(feeds, (), program)
    close(value("w"), [[1.88]])


def loss_of_shape_one() -> Net:
    """Build a loss of shape [1], as in releases before 2.5."""

    def make() -> tuple[Variable, Variable]:
        out = paddle.matmul(static.data("X", [None, 1], "float32"), parameter("w", [[2.0]]))
        loss = paddle.reshape(paddle.mean(out), [1])
        paddle.optimizer.SGD(1.0).minimize(loss)
        return loss, out

    return build(make)


def test_losses_of_shape_one() -> None:
    """Losses of shape [1] are joined and fed like scalars."""
    net = loss_of_shape_one()
    program = net.parallel(2, gradient_scale_strategy="Customized")
    name = f"{net.loss.name}@GRAD"
    loss, shown = net.run({**FEED, name: seeded([0.01, 0.03])}, (net.loss, name), program)
    close(loss, [3, 7])
    close(shown, [0.01, 0.03])
    close(value("w"), [[1.88]])
    write("w", [[2.0]])
    net.run(FEED, (), net.parallel(2))
    close(value("w"), [[-0.5]])


def test_a_fed_gradient_needs_customized() -> None:
    """Otherwise the program's own value overwrites the fed one, as in Paddle."""
    net = fc_mean()
    name = f"{net.loss.name}@GRAD"
    feed = {**FEED, name: seeded([7.0, 7.0])}
    close(net.run(feed, name, net.parallel(2))[0], [0.5, 0.5])


@pytest.mark.parametrize("devices", [0, 2])
def test_customized_without_a_gradient(devices: int) -> None:
    """The error names the variable to feed."""
    net = fc_mean()
    made = strategy(gradient_scale_strategy="Customized")
    program = static.CompiledProgram(net.main, made)
    if devices:
        program = net.parallel(devices, gradient_scale_strategy="Customized")
    for feed in (FEED, [FEED] * max(devices, 1)):
        with pytest.raises(FeedError, match=rf"must be fed, under the name '{net.loss.name}@GRAD'"):
            net.run(feed, net.loss, program)


def test_wrong_shapes_name_the_variable() -> None:
    """[1] and [D, 1] are refused, as each device needs one number."""
    net = fc_mean()
    program = net.parallel(2, gradient_scale_strategy="Customized")
    name = f"{net.loss.name}@GRAD"
    for wrong in (np.ones(1), np.ones((2, 1)), np.ones(4)):
        with pytest.raises(FeedError, match=rf"'{name}' was fed"):
            net.run({**FEED, name: wrong.astype("float32")}, net.loss, program)
