"""The gradients of maximum and minimum where several elements are equal."""

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
    """max and min give each equal element the whole gradient, amax and amin a share."""
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [2, 3], "float32")
        x.stop_gradient = False
        found = getattr(paddle, name)(x, axis=1, keepdim=keepdim)
        gradient = static.gradients([found], x)
        fed = np.array([[1, 1, 0], [2, 3, 3]], "float32")
        assert static.Executor().run(feed={"x": fed}, fetch_list=gradient)[0].tolist() == TIES[name]


@pytest.mark.exhaustive
def test_an_element_is_found_again_after_its_rounding() -> None:
    """Operands that XLA could compute twice, with different rounding, are computed once."""
    with static.program_guard(static.Program(), static.Program()):
        paddle.seed(15)
        tokens = static.data("tokens", [None, 6], "int64")
        layer = paddle.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
        found = paddle.amax(layer(paddle.nn.Embedding(10, 16)(tokens)), axis=1)
        loss = paddle.mean(paddle.nn.Linear(16, 10)(found) ** 2)
        paddle.optimizer.SGD(learning_rate=0.1).minimize(loss)
        exe = static.Executor()
        exe.run(static.default_startup_program())
        rows = np.random.RandomState(0).randint(0, 10, [64, 6])
        for _ in range(3):
            (value,) = exe.run(feed={"tokens": rows}, fetch_list=[loss])
    assert np.isfinite(value)
