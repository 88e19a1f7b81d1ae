"""Running results: loops on CPUs equal XLA's trees, and sums equal NumPy's bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from graphopt.ir.dtypes import as_dtype
from graphopt.lowering.kernels import running
from graphopt.lowering.ops import reduce

COLUMNS = {"flatten": False, "exclusive": False, "reverse": False}
RULES: dict[str, Callable[..., Any]] = {
    "sums": partial(reduce.cumsum, **COLUMNS),
    "products": partial(reduce.cumprod, exclusive=False, reverse=False),
    "products, backwards": partial(reduce.cumprod, exclusive=True, reverse=True),
    "logarithms": partial(reduce.logcumsumexp, **COLUMNS),
    "logarithms, backwards": partial(reduce.logcumsumexp, **{**COLUMNS, "reverse": True}),
    "largest": partial(reduce.cummax, dtype=as_dtype("int64")),
    "smallest": partial(reduce.cummin, dtype=as_dtype("int64")),
}
X = np.random.default_rng(0).normal(size=(37, 5)).astype("float32")


pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def by_tree(monkeypatch: pytest.MonkeyPatch, rule: Callable[..., Any], *args: Any) -> Any:
    """Compute a rule with XLA's trees instead of loops."""
    with monkeypatch.context() as patch:
        for module in (running, reduce):
            patch.setattr(module, "on_cpus", lambda x, axis, loop, tree: tree(x))
        return jax.jit(rule)(*args)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("axis", [0, 1])
def test_loops_give_what_trees_do(name: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops and trees agree in values, places and gradients."""
    rule = partial(RULES[name], axis=axis)

    def gradient(x: Any) -> Any:
        return jax.grad(lambda x: (jax.tree.leaves(rule(x))[0] * X).sum())(x)

    for function in (rule, gradient):
        found = jax.tree.leaves(jax.jit(function)(X))
        wanted = jax.tree.leaves(by_tree(monkeypatch, function, X))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["logarithms", "largest"])
def test_special_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([-np.inf, -np.inf, 2.0, 1e38, np.inf, -np.inf, np.nan, 1.0], "float32")
    rule = partial(RULES[name], axis=0)
    for a, b in zip(
        jax.tree.leaves(rule(x)), jax.tree.leaves(by_tree(monkeypatch, rule, x)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert jax.tree.leaves(rule(x[:0]))[0].shape == (0,)


def test_sums_are_numpys() -> None:
    """Sums are added in order, as in Paddle, also where all terms are -0.0."""
    x = np.vstack([X, np.full((1, 5), -0.0, "float32")] * 9)
    for axis, part in ((0, x), (0, x[:, 0]), (0, x[37:38])):
        found = np.asarray(RULES["sums"](part, axis=axis))
        assert found.tobytes() == np.cumsum(part, axis).tobytes()
