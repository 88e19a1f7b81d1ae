"""A function of a program's variable against the same function in NumPy, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh, run

Array = np.ndarray[Any, Any]
X = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5]])


def count(value: int) -> static.Variable:
    return paddle.full([1], value, "int64")


def data(name: str = "x", shape: Any = (2, 3), dtype: str = "float64") -> static.Variable:
    made = static.data(name, list(shape), dtype)
    made.stop_gradient = False
    return made


def check(
    build: Callable[[Any], Any],
    wanted: Callable[[Array], Array],
    at: Array = X,
    *,
    smooth: bool = True,
    feed: Mapping[str, Any] | None = None,
) -> None:
    """Check that `build(x)` computes `wanted(x)`, and its gradient against central differences."""
    with fresh():
        x = data(shape=(-1, *at.shape[1:]))
        out = build(x)
        weights = np.cos(np.arange(wanted(at).size)).reshape(wanted(at).shape)
        grads = static.gradients([out], [x], [paddle.to_tensor(weights)]) if smooth else []
        value, *gradient = run([out, *grads], x=at, **(feed or {}))
    np.testing.assert_allclose(value, wanted(at), rtol=1e-12)
    if smooth:
        np.testing.assert_allclose(gradient[0], differences(wanted, at, weights), atol=1e-6)


def differences(function: Callable[[Array], Array], at: Array, weights: Array) -> Array:
    gradient = np.zeros_like(at)
    for position in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[position] = 1e-6
        gradient[position] = np.sum((function(at + step) - function(at - step)) * weights) / 2e-6
    return gradient
