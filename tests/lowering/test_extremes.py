"""The gradients of the largest and the smallest elements where several are equal."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static

# what Paddle 2.6.2 gives for [[1, 1, 0], [2, 3, 3]] over the last axis
TIES = {
    "max": [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]],
    "amax": [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]],
    "min": [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    "amin": [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
}


@pytest.mark.parametrize("name", TIES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_equal_elements(name: str, keepdim: bool) -> None:
    """max and min give each of them the whole gradient, amax and amin a share."""
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [2, 3], "float32")
        x.stop_gradient = False
        found = getattr(paddle, name)(x, axis=1, keepdim=keepdim)
        gradient = static.gradients([found], x)
        fed = np.array([[1, 1, 0], [2, 3, 3]], "float32")
        assert static.Executor().run(feed={"x": fed}, fetch_list=gradient)[0].tolist() == TIES[name]


def test_an_element_is_found_again_after_its_rounding() -> None:
    """Operands that XLA would compute twice, and round differently, are computed once."""
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 6, 16], "float32")
        x.stop_gradient = False
        linear, norm = paddle.nn.Linear(16, 16), paddle.nn.LayerNorm(16)
        found = paddle.amax(norm(x + linear(paddle.nn.functional.relu(linear(x)))), axis=1)
        gradient = static.gradients([found * found], x)
        exe = static.Executor()
        exe.run(static.default_startup_program())
        fed = np.random.RandomState(0).rand(64, 6, 16).astype("float32")
        fed[:, 3] = fed[:, 1]
        assert np.isfinite(exe.run(feed={"x": fed}, fetch_list=gradient)[0]).all()
