"""Helpers of paddle.compat, and layers of fluid.contrib in Paddle 1.8."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt import compat, fluid
from graphopt_tests.frontend.test_fluid import fresh


def test_text_and_bytes_in_lists_and_sets() -> None:
    assert compat.to_text(b"a") == "a"
    assert compat.to_bytes({"a", 1}) == {b"a", 1}
    given = [b"a", "b"]
    assert compat.to_text(given, inplace=True) is given
    assert given == ["a", "b"]


@pytest.mark.parametrize(
    ("x", "d", "wanted"), [(2.5, 0, 3), (-2.5, 0, -3), (1.25, 1, 1.3), (0, 2, 0)]
)
def test_halves_are_rounded_away_from_zero(x: float, d: int, wanted: float) -> None:
    assert compat.round(x, d) == wanted


def test_the_rest_of_compat() -> None:
    assert compat.floor_division(7, 2) == 3
    assert compat.get_exception_message(ValueError("so")) == "so"
    assert compat.long_type is int


def test_layers_of_contrib() -> None:
    contrib = fluid.contrib.layers
    x = np.arange(8, dtype="float32").reshape(2, 4) - 4
    with fresh():
        given = fluid.data("x", [2, 4], "float32")
        outs = [
            contrib.partial_concat([given, given], 1, 2),
            contrib.partial_sum([given, given], 1, 2),
            contrib.fused_elemwise_activation(given, given, ["elementwise_add", "relu"]),
        ]
        found = fluid.Executor(fluid.CPUPlace()).run(feed={"x": x}, fetch_list=outs)
    part = x[:, 1:3]
    wanted = [np.concatenate([part, part], 1), 2 * part, x + np.maximum(x, 0)]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_two_functors_are_needed() -> None:
    with fresh(), pytest.raises(ValueError, match="should have two names"):
        x = fluid.data("x", [2, 4], "float32")
        fluid.contrib.fused_elemwise_activation(x, x, ["relu"])
