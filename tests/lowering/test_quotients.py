"""Quotients and logarithms that are rounded to integers: floor(x / 41), floor(log10(x))."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static
from graphopt.ir.dialect.ops import elementary
from graphopt.lowering.ops.base import quotient
from graphopt.lowering.registry import RULES
from graphopt_tests.frontend.programs import fresh, run

X = np.arange(1, 4001, dtype="float32").reshape(50, 80)
# the inverses of these, rounded, are too small
BELOW = np.array([41, 47, 55, 61, 82, 83, 94, 97], "float32")


@pytest.mark.parametrize("shape", [(), (1, 1), (50, 1), (1, 80), (50, 80)])
def test_they_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    y = np.resize(BELOW, shape)
    for divisor in (lambda z: z, lambda _: y):  # fed, and known
        found = jax.jit(lambda x, z, divisor=divisor: quotient(x, divisor(z)))(X, y)
        np.testing.assert_array_equal(found, X / y)


def test_whole_numbers_of_quotients() -> None:
    with fresh():
        x = static.data("x", [50, 80])
        fed, known = static.data("y", [1]), paddle.full([1], 41.0)
        programs = [op(x / y) for y in (fed, known) for op in (paddle.floor, paddle.ceil)]
        found = run([*programs, paddle.cast(x / fed, "int32")], x=X, y=np.array([41], "float32"))
    exact = X / np.float32(41)
    whole = [np.floor(exact), np.ceil(exact)]
    for have, want in zip(found, [*whole, *whole, exact.astype("int32")], strict=True):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("count", [41, 55])
def test_means_of_ones_are_one(count: int) -> None:
    """Means of ones are 1, and the accuracy is 1 if all predictions are right."""
    ones = np.ones((1, 2, count), "float32")
    with fresh():
        x = static.data("x", [1, 2, count])
        rows = paddle.transpose(x[0], [1, 0])
        label = static.data("label", [count, 1], "int64")
        means: list[Any] = [
            *(paddle.mean(x), paddle.mean(x, [0, 1]), paddle.mean(x, -1)),
            *(F.avg_pool1d(x, count), F.adaptive_avg_pool1d(x, 1), static.accuracy(rows, label)),
        ]
        found = run(means, x=ones, label=np.zeros((count, 1), "int64"))
    assert [set(each.ravel().tolist()) for each in map(np.asarray, found)] == [{1.0}] * len(means)


@pytest.mark.exhaustive
def test_cells_of_boxes() -> None:
    """As in Paddle 2.6.2, 7 sevenths of 3 pixels end with the third pixel."""
    squares = np.square(np.arange(50, dtype="float32"))
    rows = np.broadcast_to(squares[None, None, :, None], (1, 1, 50, 50))
    box = np.array([[0.3023891, 2.049697, 13.989828, 4.3362794]], "float32")
    with fresh():
        x, boxes = static.data("x", [1, 1, 50, 50]), static.data("boxes", [1, 4])
        pooled = paddle.vision.ops.roi_pool(x, boxes, paddle.ones([1], "int32"), 7)
        # one point for each of 8 pixels in 8 cells
        square = paddle.to_tensor(np.array([[0, 0, 41 * 8, 41 * 8]], "float32"))
        points = paddle.vision.ops.roi_align(
            x, square, paddle.ones([1], "int32"), 41, 1.0, aligned=False
        )
        found, sampled = run([pooled, points], x=rows, boxes=box)
    assert found[0, 0, :, 0].tolist() == [4, 4, 9, 9, 16, 16, 16]
    between = np.interp(np.arange(48) + 0.5, np.arange(50), squares)
    np.testing.assert_allclose(sampled[0, 0, :6, 0], between.reshape(6, 8).mean(1), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logarithms_of_powers(dtype: str) -> None:
    limits = np.finfo(dtype)
    for base, rule in ((2, RULES[elementary.Log2]), (10, RULES[elementary.Log10])):
        least, most = (math.log(float(end), base) for end in (limits.tiny, limits.max))
        whole = np.arange(math.ceil(least), math.ceil(most))
        powers = np.array([float(f"1e{n}") if base == 10 else 2.0**n for n in whole], dtype)
        with jax.enable_x64(True):
            found = jax.jit(rule)(powers)
        np.testing.assert_array_equal(found, whole.astype(dtype))
