"""Dropout masks from a hash of a counter look random, and draws are independent."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static, utils
from graphopt.lowering.hashing import fold_in, hash_counters, keep_share, words_of
from graphopt.lowering.ops.random import draw_mask

Array = np.ndarray[Any, Any]
COUNT = 1 << 16
COUNTERS = np.arange(COUNT, dtype=np.uint32)


def keys() -> list[Array]:
    """Make keys that differ in few bits: steps, ops and replicas of one program."""
    steps = [np.array(words, np.uint32) for words in ([0, 1], [0, 2], [1, 1])]
    return [*steps, *(fold_in(steps[0], np.uint32(number)) for number in (0, 1))]


def bits(key: Array) -> Array:
    return hash_counters(key, COUNTERS)


def is_usual(observed: Array, expected: Any) -> bool:
    """Apply a chi-square test, which one in a million fair draws fails (normal approximation)."""
    freedom = observed.size - 1
    statistic = np.sum((observed - expected) ** 2 / expected)
    return bool(abs(statistic - freedom) < 5 * np.sqrt(2 * freedom))


def test_every_byte_is_uniform() -> None:
    """Each of the four bytes takes all values equally often, and so do pairs of neighbors."""
    for key in keys():
        words = bits(key)
        for byte in words.view(np.uint8).reshape(-1, 4).T:
            assert is_usual(np.bincount(byte, minlength=256), COUNT / 256)
        top = (words >> np.uint32(28)).reshape(-1, 2)
        assert is_usual(np.bincount(top[:, 0] * 16 + top[:, 1], minlength=256), COUNT / 512)


@pytest.mark.exhaustive
def test_every_bit_is_fair() -> None:
    """Each bit is set in half of the words, independently of other bits and words."""
    signs = np.unpackbits(bits(keys()[0]).view(np.uint8)).reshape(-1, 32) * 2.0 - 1
    limit = 5 / np.sqrt(COUNT)
    assert np.all(abs(signs.mean(0)) < limit)
    together = signs.T @ signs / COUNT - np.eye(32)
    assert np.all(abs(together) < limit)
    for lag in (1, 2, 3, 64, 256, 1024):
        assert np.all(abs((signs[lag:] * signs[:-lag]).mean(0)) < 1.1 * limit)


def test_rows_and_columns_are_fair() -> None:
    """Rows, columns and heads of a mask keep their share, with the variance of fair draws."""
    share = 0.9
    for key in keys():
        kept = keep_share(key, COUNTERS, share).reshape(16, 64, 64)
        for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
            counts = kept.sum(axes)
            each = kept.size / counts.size
            deviation = (counts - share * each) ** 2 / (each * share * (1 - share))
            assert abs(deviation.mean() - 1) < 6 * np.sqrt(2 / counts.size)


def test_draws_are_independent() -> None:
    """The masks of two keys agree as often as fair masks do."""
    masks = [keep_share(key, COUNTERS, 0.5) for key in keys()]
    for a, b in combinations(masks, 2):
        assert abs(np.mean(a == b) - 0.5) < 2.5 / np.sqrt(COUNT)


def test_keys_of_many_ops_differ() -> None:
    numbers = np.arange(1 << 12, dtype=np.uint32)[:, None]
    for key in keys():
        assert len(np.unique(fold_in(key, numbers), axis=0)) == len(numbers)


def test_the_words_are_those_of_jax() -> None:
    """A traced draw equals NumPy's."""
    key, share = words_of(7 + (5 << 32)), 0.7
    np.testing.assert_array_equal(key, [5, 7])
    traced = jax.jit(lambda key: draw_mask(key, share, (256, 256)))(key)
    np.testing.assert_array_equal(traced, keep_share(key, COUNTERS, share).reshape(256, 256))


def run(program_seed: int = 0) -> list[Any]:
    """Run two dropouts of ones and the gradient of the first, in two steps."""
    paddle.seed(5)
    with (
        static.program_guard(static.Program(), static.Program()),
        utils.unique_name.guard(),
        static.scope_guard(static.Scope()),
    ):
        static.default_main_program().random_seed = program_seed
        x = static.data("x", [64, 64], "float32")
        x.stop_gradient = False
        first, second = (paddle.nn.functional.dropout(x, 0.25) for _ in range(2))
        (gradient,) = static.gradients([first], [x])
        exe = static.Executor(paddle.CPUPlace())
        feed, fetches = {"x": np.ones((64, 64), "float32")}, [first, second, gradient]
        return [a for _ in range(2) for a in exe.run(feed=feed, fetch_list=fetches)]


def test_a_program_with_it() -> None:
    """The share is right, the gradient uses the forward mask, and ops and steps differ."""
    one, other, gradient, later, *_ = found = run()
    np.testing.assert_array_equal(one, gradient)
    for mask in (one, other, later):
        assert abs(np.mean(mask == 0) - 0.25) < 0.04
    for a, b in combinations((one, other, later), 2):
        assert 0.55 < np.mean((a == 0) == (b == 0)) < 0.7  # 0.625 of fair draws
    for again, before in zip(run(), found, strict=True):
        np.testing.assert_array_equal(again, before)


def test_a_seed_is_honoured() -> None:
    """With a seed of the program, every step draws the same numbers."""
    first, _, _, later, *_ = run(program_seed=11)
    np.testing.assert_array_equal(first, later)
