"""Derivatives in programs: intermediates, second derivatives, blocked paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable
from graphopt_tests.runtime.nets import Net, build, close, parameter

FEED = {"x": np.array([[0.5], [-1.5], [2.0]], "float32")}
X = FEED["x"].astype("float64")


def net_of(make: Callable[[Variable, Variable], dict[str, Any]]) -> tuple[Net, dict[str, Any]]:
    """Append `make` to x [N, 1] and w [1, 1] = 3; return the net and the variables it returns."""
    made: dict[str, Any] = {}

    def program() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 1], "float32")
        x.stop_gradient = False
        made.update(make(x, parameter("w", [[3.0]])))
        return made["y"], made["y"]

    return build(program), made


def fetch(net: Net, made: dict[str, Any], *names: str) -> list[Any]:
    return net.run(FEED, [made[name] for name in names])


def test_with_respect_to_an_intermediate() -> None:
    """Gradients of an intermediate and of its operands are computed together."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        h = paddle.matmul(x, w)
        y = paddle.mean(h * h)
        gh, gx, gw = static.gradients(y, [h, x, w])
        return {"y": y, "gh": gh, "gx": gx, "gw": gw}

    gh, gx, gw = fetch(*net_of(make), "gh", "gx", "gw")
    h = 3 * X
    close(gh, 2 * h / 3)
    close(gx, 6 * h / 3)
    close(gw, [[np.sum(2 * h * X) / 3]])


def test_second_and_third_derivatives() -> None:
    """Gradients of gradients are right, through two levels."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        y = paddle.sum(x * x * x * x)
        (first,) = static.gradients(y, x)
        (second,) = static.gradients(first, x)
        (third,) = static.gradients(second, x)
        return {"y": y, "first": first, "second": second, "third": third}

    first, second, third = fetch(*net_of(make), "first", "second", "third")
    close(first, 4 * X**3)
    close(second, 12 * X**2)
    close(third, 24 * X)


def test_training_on_a_gradient() -> None:
    """A gradient penalty trains on one device, on two, and on two with uneven rows."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        out = paddle.tanh(paddle.matmul(x, w))
        (slope,) = static.gradients(out, x)
        loss = paddle.mean(paddle.square(slope))
        paddle.optimizer.SGD(0.1).minimize(loss)
        return {"y": loss}

    feed = {"x": np.array([[0.1], [-0.3], [0.2], [0.05]], "float32")}
    x, w = feed["x"].astype("float64"), 3.0
    tangent = np.tanh(x * w)
    slope = w * (1 - tangent**2)
    by_row = 2 * slope * ((1 - tangent**2) - 2 * w * x * tangent * (1 - tangent**2))
    for devices, count in ((0, 4), (2, 4), (2, 3)):
        net, _ = net_of(make)
        program = net.parallel(devices) if devices else None
        first, second = by_row[:2], by_row[2:count]
        by_hand = (np.mean(first) + np.mean(second)) / 2
        (gradient, new) = net.run({"x": feed["x"][:count]}, ("w@GRAD", "w"), program)
        close(gradient, np.full((max(devices, 1), 1), by_hand))
        close(new, np.full((max(devices, 1), 1), w - 0.1 * by_hand))


def test_cotangents() -> None:
    """`target_gradients` weight the targets; several targets add up."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        weights = static.data("weights", [None, 1], "float32")
        y, z = x * x, x * w
        (g,) = static.gradients([y, z], x, [weights, None])
        return {"y": y, "g": g}

    net, made = net_of(make)
    weights = np.array([[1.0], [10.0], [100.0]], "float32")
    close(net.run({**FEED, "weights": weights}, made["g"])[0], 2 * X * weights + 3)


@pytest.mark.parametrize("how", ["no_grad_set", "stop_gradient"])
def test_blocked_paths(how: str) -> None:
    """No gradient passes through a blocked value, but the other path counts."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        blocked = paddle.matmul(x, w)
        if how == "stop_gradient":
            blocked.stop_gradient = True
        y = paddle.mean(blocked * w + w)
        no_grad = {blocked.name} if how == "no_grad_set" else None
        ((_, gradient),) = static.append_backward(y, no_grad_set=no_grad)
        return {"y": y, "gw": gradient}

    (gw,) = fetch(*net_of(make), "gw")
    close(gw, [[np.mean(3 * X + 1)]])


def test_frozen_parameters() -> None:
    """A parameter that is not trainable gets no gradient and no update."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 1], "float32")
        out = paddle.matmul(x, parameter("w", [[3.0]])) + parameter("b", [1.0], trainable=False)
        loss = paddle.mean(out)
        _, pairs = paddle.optimizer.SGD(0.1).minimize(loss)
        assert [p.name for p, _ in pairs] == ["w"]
        return loss, out

    net = build(make)
    _, w, b = net.run(FEED, (net.loss, "w", "b"))
    close(w, [[3.0 - 0.1 * X.mean()]])
    close(b, [1.0])


def test_independent_values() -> None:
    """Independent values have the gradient None."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        y = paddle.mean(x)
        assert static.gradients(y, w) == [None]
        return {"y": y, "gx": static.gradients(y, x)[0]}

    close(fetch(*net_of(make), "gx")[0], np.full((3, 1), 1 / 3))


def test_a_value_that_is_used_twice() -> None:
    """The contributions of all uses add up."""

    def make(x: Variable, w: Variable) -> dict[str, Any]:
        h = paddle.matmul(x, w)
        y = paddle.sum(h * w + paddle.tanh(h) + h)
        gw, gh = static.gradients(y, [w, h])
        return {"y": y, "gw": gw, "gh": gh}

    gw, gh = fetch(*net_of(make), "gw", "gh")
    h = 3 * X
    slope = 3 + 1 - np.tanh(h) ** 2 + 1
    close(gh, slope)
    close(gw, [[np.sum(h + slope * X)]])
