"""Buckets reduce the number of programs, and preserve the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.buckets import Buckets, multiples_of, one_of, powers_of_two
from graphopt_tests.runtime.bucket_runs import Built, Feed, assert_same, run


def classifier() -> Built:
    """Build two layers, a loss that weighs rows, metrics of the whole batch, and Adam."""
    x = static.data("x", [None, 6], "float32")
    x.stop_gradient = False
    y = static.data("y", [None, 1], "int64")
    out = static.nn.fc(static.nn.fc(x, 8, activation="relu"), 4)
    losses = F.cross_entropy(out, y, reduction="none")
    loss = paddle.mean(losses)
    spread = paddle.max(out) - paddle.min(out) + paddle.logsumexp(out)
    (gradient,) = static.gradients([loss], [x])
    paddle.optimizer.Adam(0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0)).minimize(loss)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        return {
            "x": generator.normal(size=(rows, 6)).astype("float32"),
            "y": generator.integers(0, 4, (rows, 1)),
        }

    return [loss, losses, out, spread, paddle.argmax(out, axis=1), gradient], feed


def language_model() -> Built:
    """Build a Transformer over sequences of any number and length, flattened for the loss."""
    tokens = static.data("tokens", [None, None], "int64")
    labels = static.data("labels", [None, None], "int64")
    hidden = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)(nn.Embedding(12, 8)(tokens))
    scores = nn.Linear(8, 12)(hidden)
    rows = paddle.reshape(scores, [-1, 12])
    loss = F.cross_entropy(rows, paddle.reshape(labels, [-1, 1]))
    paddle.optimizer.SGD(0.5).minimize(loss)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        shape = (rows, length)
        return {
            "tokens": generator.integers(0, 12, shape),
            "labels": generator.integers(0, 12, shape),
        }

    return [loss, scores, rows, paddle.mean(hidden, axis=1)], feed


def pictures() -> Built:
    """Build a convolution, pooling and a batch norm with fixed statistics."""
    x = static.data("x", [None, 3, 8, 8], "float32")
    h = static.nn.batch_norm(static.nn.conv2d(x, 4, 3), is_test=True)
    out = static.nn.fc(F.max_pool2d(h, 2), 2)
    return [out, paddle.sum(out)], lambda generator, rows, length: {
        "x": generator.normal(size=(rows, 3, 8, 8)).astype("float32")
    }


BUCKETS = Buckets(
    {"batch": powers_of_two(2), "time": multiples_of(4)},
    {"tokens": ("batch", "time"), "labels": ("batch", "time")},
)


@pytest.mark.parametrize(
    "build",
    [
        classifier,
        *(pytest.param(b, marks=pytest.mark.exhaustive) for b in (language_model, pictures)),
    ],
)
def test_results_are_those_of_the_feed(build: Callable[[], Built]) -> None:
    assert_same(build, BUCKETS)


def test_the_program_says_why_it_runs_exactly() -> None:
    def build() -> Built:
        x = static.data("x", [None, 4], "float32")
        out = paddle.roll(static.nn.fc(x, 2), 1, axis=0)
        return [out], lambda generator, rows, length: {"x": np.ones((rows, 4), "float32")}

    _, _, stats = run(build, BUCKETS)
    assert (stats["rows"], stats["padding"]) == (0, 0)
    (reason,) = stats["exact"]
    assert reason.startswith("no-rule: pd.roll")


def test_feeds_that_disagree_run_exactly() -> None:
    """A feed with two different batch sizes is not padded."""
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None], "float32")
        y = static.data("y", [None], "float32")
        executor = static.Executor(paddle.CPUPlace(), buckets=BUCKETS)
        feed = {"x": np.ones(3, "float32"), "y": np.ones(5, "float32")}
        found = executor.run(feed=feed, fetch_list=[paddle.sum(x), paddle.sum(y)])
    assert [float(value) for value in found] == [3, 5]
    assert executor.stats["padding"] == 0
    (reason,) = executor.stats["exact"]
    assert reason == "feeds-disagree: feed 'y' has 5 rows of 'batch', another one 3"


@pytest.mark.parametrize(
    ("sizes", "pairs"),
    [
        (powers_of_two(), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 16)]),
        (powers_of_two(8, 16), [(1, 8), (9, 16), (17, 17)]),
        (multiples_of(5), [(1, 5), (5, 5), (6, 10)]),
        (one_of(10, 4), [(1, 4), (5, 10), (11, 11)]),
    ],
)
def test_sizes(sizes: Callable[[int], int], pairs: list[tuple[int, int]]) -> None:
    assert [(rows, sizes(rows)) for rows, _ in pairs] == pairs


def test_wrong_buckets() -> None:
    with pytest.raises(ValueError, match="least should be 1 or more, found 0"):
        powers_of_two(0)
    with pytest.raises(ValueError, match="feed 'x' name time, but sizes has only batch"):
        Buckets({"batch": powers_of_two()}, {"x": ("batch", "time")})
    buckets = Buckets({"batch": powers_of_two()}, {"x": ("batch",), "y": ("batch", None)})
    with pytest.raises(ValueError, match="feed 'x' has 2 axes, but axes gives 1 name"):
        buckets.names("x", (-1, 3))
    with pytest.raises(ValueError, match="the program fixes the axis 'batch' to 3"):
        buckets.names("y", (3, 4))
