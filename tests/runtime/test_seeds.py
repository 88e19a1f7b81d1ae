"""Random numbers: the effect of seeds, and the differences by step, operator and replica (1.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Program, Variable
from graphopt_tests.runtime.nets import Net, build, value

ROWS = 64


def dropout_net(seed: int) -> Net:
    """Build x [N, 1] through a dropout, whose output is a mask when x is 1."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 1], "float32")
        out = paddle.nn.functional.dropout(x, 0.5)
        return paddle.mean(out), out

    return build(make, seed)


def masks(net: Net, steps: int = 2, program: Any = None, count: int = ROWS) -> list[Any]:
    ones = {"x": np.ones((count, 1), "float32")}
    return [net.run(ones, net.out, program)[0].ravel() / 2 for _ in range(steps)]


def test_upscaled_in_training() -> None:
    """Kept elements are divided by 1 - p; about half of them are kept."""
    (mask,) = masks(dropout_net(0), 1)
    assert set(mask) == {0.0, 1.0}
    assert 16 < mask.sum() < 48


@pytest.mark.every(3)
@pytest.mark.parametrize("devices", [1, 2, 6])
def test_a_program_seed_gives_one_mask(devices: int) -> None:
    """With a program seed, every step and replica has the same mask."""
    net = dropout_net(7)
    count = ROWS * devices
    first, second = masks(net, 2, net.parallel(devices), count)
    np.testing.assert_array_equal(first, second)
    for part in np.split(first, devices):
        np.testing.assert_array_equal(part, first[:ROWS])
    np.testing.assert_array_equal(first[:ROWS], masks(net, 1)[0])


@pytest.mark.parametrize("devices", [2, 6])
def test_without_a_seed_everything_differs(devices: int) -> None:
    """Masks differ by step and replica; `paddle.seed` restarts the sequence."""
    net = dropout_net(0)
    count = ROWS * devices
    program = net.parallel(devices)
    paddle.seed(3)
    found = masks(net, 2, program, count)
    parts = [tuple(part) for mask in found for part in np.split(mask, devices)]
    assert len(set(parts)) == 2 * devices
    paddle.seed(3)
    np.testing.assert_array_equal(masks(net, 2, program, count), found)
    paddle.seed(4)
    assert (masks(net, 1, program, count)[0] != found[0]).any()


def test_uneven_parts_draw_as_even_ones() -> None:
    """A replica's numbers depend on its index alone."""
    net = dropout_net(0)
    program = net.parallel(2)
    paddle.seed(3)
    (even,) = masks(net, 1, program, 2 * ROWS)
    paddle.seed(3)
    (uneven,) = masks(net, 1, program, 2 * ROWS - 1)
    np.testing.assert_array_equal(uneven[:ROWS], even[:ROWS])


def test_operators_draw_different_numbers() -> None:
    """Two dropouts of one program without a seed have different masks."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 1], "float32")
        return paddle.nn.functional.dropout(x, 0.5), paddle.nn.functional.dropout(x, 0.5)

    net = build(make)
    ones = {"x": np.ones((ROWS, 1), "float32")}
    first, second = net.run(ones, (net.loss, net.out))
    assert (first != second).any()


@pytest.mark.exhaustive
def test_the_backward_pass_uses_the_same_mask() -> None:
    """The mask is the forward one, with and without a seed, on one or several devices."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 1], "float32")
        x.stop_gradient = False
        out = paddle.nn.functional.dropout(x, 0.5)
        loss = paddle.sum(out)
        static.gradients(loss, x)
        return loss, out

    for seed in (0, 5):
        net = build(make, seed)
        for devices, count in ((0, 8), (2, 8), (2, 7)):
            ones = {"x": np.ones((count, 1), "float32")}
            program = net.parallel(devices) if devices else None
            gradient, out = net.run(ones, ("x@GRAD", net.out), program)
            np.testing.assert_array_equal(gradient, out)


def two_layers(seed: int) -> Net:
    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 4], "float32")
        out = static.nn.fc(static.nn.fc(x, 4), 4)
        return paddle.mean(out), out

    return build(make, seed)


def test_seeded_parameters_of_one_shape_are_equal() -> None:
    """As in Paddle, the seed is each operator's, not the program's sequence."""
    net = two_layers(5)
    first = value("fc_0.w_0")
    np.testing.assert_array_equal(first, value("fc_1.w_0"))
    net.start()
    np.testing.assert_array_equal(first, value("fc_0.w_0"))
    assert len(np.unique(first)) == 16


def test_unseeded_parameters_differ() -> None:
    """They differ by parameter and run; the generator's seed makes them reproducible."""
    paddle.seed(11)
    net = two_layers(0)
    first = value("fc_0.w_0")
    assert (first != value("fc_1.w_0")).any()
    net.start()
    assert (first != value("fc_0.w_0")).any()
    paddle.seed(11)
    net.start()
    np.testing.assert_array_equal(first, value("fc_0.w_0"))


def test_a_seed_that_comes_late_changes_nothing() -> None:
    """An operator copies the seed when it is created."""
    net = dropout_net(0)
    net.main.random_seed = 9
    first, second = masks(net, 2)
    assert (first != second).any()
    assert net.main.clone().random_seed == 9


@pytest.mark.parametrize(
    ("mode", "train", "test"),
    [
        ("upscale_in_train", 2.0, 1.0),
        ("downscale_in_infer", 1.0, 0.5),
    ],
)
def test_dropout_modes(mode: str, train: float, test: float) -> None:
    """Each mode has its scale in training and in a test program."""
    main = Program()
    with static.program_guard(main, Program()):
        x = static.data("x", [None, 1], "float32")
        out = paddle.nn.functional.dropout(x, 0.5, mode=mode)
    executor = static.Executor(paddle.CPUPlace())
    ones = {"x": np.ones((ROWS, 1), "float32")}
    assert set(executor.run(main, ones, [out])[0].ravel()) == {0.0, train}
    assert set(executor.run(main.clone(for_test=True), ones, [out])[0].ravel()) == {test}


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**63, 2**64 - 1])
def test_generator_seeds(seed: int) -> None:
    """Seeds of up to 64 bits give keys that JAX takes."""
    generator = paddle.seed(seed)
    first, second = generator.next_key(), generator.next_key()
    assert first.dtype == np.uint32 and first.shape == (2,)
    assert first.tolist() != second.tolist()
    assert generator.initial_seed() == seed
    paddle.seed(0)


def test_long_draws() -> None:
    """Draws made in blocks have no repetition and the right distribution."""
    with static.program_guard(static.Program()):
        normal = paddle.normal(2.0, 3.0, [3, 5000])
        uniform = paddle.uniform([9001], "float32", -1.0, 4.0)
        found = static.Executor(paddle.CPUPlace()).run(fetch_list=[normal, uniform])
    for drawn, mean, deviation in zip(found, (2.0, 1.5), (3.0, 5 / 12**0.5), strict=True):
        assert len(np.unique(drawn)) > 0.99 * drawn.size
        assert abs(np.mean(drawn) - mean) < 5 * deviation / drawn.size**0.5
        assert abs(np.std(drawn) / deviation - 1) < 0.05
    assert found[0].shape == (3, 5000)
    assert found[1].min() >= -1 and found[1].max() < 4


def test_draws_that_are_alike_are_compiled_once() -> None:
    """A startup program runs op by op, with the same draws as one XLA program."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        weights = [static.create_parameter([3, 3], "float32") for _ in range(4)]
    found: list[list[Any]] = []
    for fetches in ([], weights):  # with fetches it is one XLA program
        scope, executor = static.Scope(), static.Executor(paddle.CPUPlace())
        paddle.seed(7)
        executor.run(startup, fetch_list=fetches, scope=scope)
        found.append([scope.find_var(weight.name).numpy() for weight in weights])
        (executable,) = executor._runner.executables()
        assert executable.replicated.name == ("alone" if fetches else "start")
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert len({array.tobytes() for array in found[0]}) == 4
