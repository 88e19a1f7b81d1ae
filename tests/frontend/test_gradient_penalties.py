"""Gradients inside a loss, in half precision: the differentiated value stays on the path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError
from graphopt.fluid.contrib import mixed_precision
from graphopt.static import amp
from graphopt_tests.example_counts import examples
from graphopt_tests.frontend import mixed_networks as networks
from graphopt_tests.frontend.programs import fresh, run, start

F = paddle.nn.functional
UNSCALED = {"init_loss_scaling": 1.0, "use_dynamic_loss_scaling": False}


def by_level(level: str, dtype: str = "float16") -> Callable[[Any], Any]:
    return lambda sgd: amp.decorate(sgd, level=level, dtype=dtype, **UNSCALED)


LEVELS: dict[str, Callable[[Any], Any]] = {
    "O0": by_level("O0"),
    "O1": by_level("O1"),
    "O1 bfloat16": by_level("O1", "bfloat16"),
    "OD": by_level("OD"),
    "O2": by_level("O2"),
    "O2 bfloat16": by_level("O2", "bfloat16"),
    "1.8": lambda sgd: mixed_precision.decorate(sgd, **UNSCALED),
    "bf16": lambda sgd: amp.bf16.decorate_bf16(sgd),
}
LAYERS: dict[str, Callable[[Any, int], Any]] = {
    "fc": lambda x, n: static.nn.fc(
        x, 8, weight_attr=networks.attr(f"w{n}", (8, 8), n), bias_attr=False
    ),
    "tanh": lambda x, n: paddle.tanh(x),
    "sigmoid": lambda x, n: F.sigmoid(x),
    "square": lambda x, n: paddle.square(x),
    "softmax": lambda x, n: F.softmax(x),
    "twice": lambda x, n: x + 0.5 * x,
    "joined": lambda x, n: paddle.concat([x, x], 1)[:, 4:12],
}


def penalty(layers: list[str], at: int, *, both: bool) -> tuple[Any, Any]:
    """Penalize the gradient by the value before layer `at`; with `both`, by the data, too."""
    x = static.data("x", [4, 8])
    x.stop_gradient = False
    value, wanted = x, [x]
    for number, name in enumerate(layers):
        if number == at:
            wanted = [x, value] if both and number else [value]
        value = LAYERS[name](value, number)
    critic = static.nn.fc(value, 1, weight_attr=networks.attr("w", (8, 1), 99), bias_attr=False)
    found = paddle.add_n(
        [paddle.mean(paddle.cast(g, "float32") ** 2) for g in static.gradients([critic], wanted)]
    )
    return found, paddle.mean(paddle.cast(critic, "float32")) * 0.0 + found


def trained(level: str | None, *args: Any, **kwargs: Any) -> list[Any]:
    """Return the penalty before and after a step."""
    with fresh():
        found, loss = penalty(*args, **kwargs)
        optimizer = paddle.optimizer.SGD(0.05)  # of 0.5, some steps multiply the rounding
        made = optimizer if level is None else LEVELS[level](optimizer)
        made.minimize(loss)
        start()
        if hasattr(made, "amp_init") and (level or "").startswith("O2"):
            made.amp_init(paddle.CPUPlace())
        feed = {"x": np.random.RandomState(7).uniform(-1, 1, (4, 8)).astype("float32")}
        return [np.asarray(run([found], **feed)[0], "float64") for _ in range(2)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "level",
    [pytest.param(n, marks=() if n == "O1" else pytest.mark.exhaustive) for n in LEVELS],
)
@settings(
    max_examples=examples(9), deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(data=st.data())
def test_penalties_are_those_of_float32(level: str, data: st.DataObject) -> None:
    """The penalty equals float32's up to half precision, and trains."""
    layers = data.draw(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=3))
    layers.insert(data.draw(st.integers(0, len(layers))), "fc")
    at, both = data.draw(st.integers(0, len(layers) - 1)), data.draw(st.booleans())
    exact, half = (trained(name, layers, at, both=both) for name in (None, level))
    assert exact[0] > 0.0
    np.testing.assert_allclose(half, exact, rtol=0.03)


def test_a_derivative_off_the_path_is_refused() -> None:
    """An edit that takes the differentiated value off the target's path is refused."""
    with fresh():
        x = static.data("x", [4, 8])
        x.stop_gradient = False
        hidden = paddle.scale(x, 2.0)
        (gradient,) = static.gradients([paddle.tanh(hidden)], [x])
        other = paddle.scale(static.data("z", [4, 8]), 1.0)
        (tanh,) = [op for op in other.block.ops if op.type == "tanh"]
        feed = {"x": np.ones((4, 8), "float32"), "z": np.ones((4, 8), "float32")}
        run([gradient], **feed)
        tanh._rename_input(hidden.name, "z")
        with pytest.raises(ProgramError, match=r"no longer depend on 'x'.*test_gradient_pen"):
            run([gradient], **feed)
