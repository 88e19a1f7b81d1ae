"""Dropout by a hash of a counter: its bits look random, and draws are independent."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static, utils
from graphopt.lowering.hashing import by_hash, counter_hash

Array = np.ndarray[Any, Any]
COUNT = 1 << 16


pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def bits(key: Any, count: int = COUNT) -> Array:
    return np.asarray(jax.random.bits(key, (count,), "uint32"))


def keys() -> list[Any]:
    """Keys that differ in little: steps, ops, replicas of one program."""
    first = jax.random.key(1)
    return [
        by_hash(key)
        for key in (
            jax.random.wrap_key_data(np.array([0, 1], np.uint32)),
            jax.random.wrap_key_data(np.array([0, 2], np.uint32)),
            jax.random.wrap_key_data(np.array([1, 1], np.uint32)),
            jax.random.fold_in(first, 0),
            jax.random.fold_in(first, 1),
        )
    ]


def is_usual(observed: Array, expected: Any) -> bool:
    """A chi-square test that one in a million fair draws fails, by the normal approximation."""
    freedom = observed.size - 1
    statistic = np.sum((observed - expected) ** 2 / expected)
    return bool(abs(statistic - freedom) < 5 * np.sqrt(2 * freedom))


def test_every_byte_is_uniform() -> None:
    """Each of the four bytes takes all values alike, and so do pairs of neighbours."""
    for key in keys():
        words = bits(key)
        for byte in words.view(np.uint8).reshape(-1, 4).T:
            assert is_usual(np.bincount(byte, minlength=256), COUNT / 256)
        top = (words >> np.uint32(28)).reshape(-1, 2)
        assert is_usual(np.bincount(top[:, 0] * 16 + top[:, 1], minlength=256), COUNT / 512)


@pytest.mark.exhaustive
def test_every_bit_is_fair() -> None:
    """Each bit is one in half of the words, and independent of that of the word before, and of the
    other bits."""
    signs = np.unpackbits(bits(keys()[0]).view(np.uint8)).reshape(-1, 32) * 2.0 - 1
    limit = 5 / np.sqrt(COUNT)
    assert np.all(abs(signs.mean(0)) < limit)
    together = signs.T @ signs / COUNT - np.eye(32)
    assert np.all(abs(together) < limit)
    for lag in (1, 2, 3, 64, 256, 1024):
        assert np.all(abs((signs[lag:] * signs[:-lag]).mean(0)) < 1.1 * limit)


def test_draws_are_independent() -> None:
    """The masks of any two keys agree as often as fair ones."""
    masks = [bits(key) < np.uint32(0.5 * 2**32) for key in keys()]
    for a, b in combinations(masks, 2):
        assert abs(np.mean(a == b) - 0.5) < 2.5 / np.sqrt(COUNT)


@pytest.mark.exhaustive
def test_it_is_a_generator() -> None:
    """JAX's draws work with it, in all widths, and keys that are split differ."""
    key = jax.random.key(3, impl=counter_hash())
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        drawn = np.asarray(jax.random.bits(key, (4096,), dtype)).astype("float64")
        assert abs(drawn.mean() / np.iinfo(dtype).max - 0.5) < 0.03
    split = jax.random.key_data(jax.random.split(key, 8))
    assert len({tuple(words) for words in np.asarray(split).tolist()}) == 8
    assert abs(np.asarray(jax.random.normal(key, (COUNT,))).std() - 1) < 0.02


def run(monkeypatch: pytest.MonkeyPatch, name: str, seed: int = 0) -> list[Array]:
    """Two dropouts of ones and the gradient of the first, in two steps."""
    monkeypatch.setenv("FLAGS_graphopt_dropout", name)
    paddle.seed(5)
    with (
        static.program_guard(static.Program(), static.Program()),
        utils.unique_name.guard(),
        static.scope_guard(static.Scope()),
    ):
        static.default_main_program().random_seed = seed
        x = static.data("x", [64, 64], "float32")
        x.stop_gradient = False
        first, second = (paddle.nn.functional.dropout(x, 0.25) for _ in range(2))
        (gradient,) = static.gradients([first], [x])
        exe = static.Executor(paddle.CPUPlace())
        feed, fetches = {"x": np.ones((64, 64), "float32")}, [first, second, gradient]
        return [a for _ in range(2) for a in exe.run(feed=feed, fetch_list=fetches)]


def test_a_program_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share is right, the derivative has the mask of its forward op, ops and steps differ."""
    one, other, gradient, later, *_ = hashed = run(monkeypatch, "hash")
    np.testing.assert_array_equal(one, gradient)
    for mask in (one, other, later):
        assert abs(np.mean(mask == 0) - 0.25) < 0.04
    for a, b in combinations((one, other, later), 2):
        assert 0.55 < np.mean((a == 0) == (b == 0)) < 0.7  # 0.625 of fair draws
    for again, before in zip(run(monkeypatch, "hash"), hashed, strict=True):
        np.testing.assert_array_equal(again, before)
    assert not np.array_equal(run(monkeypatch, "threefry")[0], one)


def test_a_seed_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a seed of its own every step draws the same."""
    first, _, _, later, *_ = run(monkeypatch, "hash", seed=11)
    np.testing.assert_array_equal(first, later)


def test_an_unknown_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names those that exist."""
    with pytest.raises(ValueError, match="threefry or hash, found 'philox'"):
        run(monkeypatch, "philox")
