"""Train on sentences of every length without compiling a program for each: buckets.

A small Transformer, then an LSTM that reads both ways, learns to say which letter comes most often
in a line. Lines come in batches of any size and any length. The same run is made twice, with feeds
as they are and with buckets; the losses agree, and the second one compiles a fraction of the
programs. Run it from the root of the repository.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import graphopt as paddle
import graphopt.nn.functional as F
import graphopt.static as static
from graphopt import nn
from graphopt.buckets import Buckets, multiples_of, powers_of_two

LETTERS, SIZE = 8, 16
BUCKETS = Buckets(
    {"batch": powers_of_two(4), "time": multiples_of(8)},
    {"letters": ("batch", "time"), "answer": ("batch", None)},
)


def transformer(x: Any) -> Any:
    """Average the outputs of an attention layer over the letters."""
    layer = nn.TransformerEncoderLayer(SIZE, 2, 2 * SIZE, dropout=0.0)
    return paddle.mean(layer(x), axis=1)


def lstm(x: Any) -> Any:
    """Return the final states of two bidirectional LSTM layers.

    The forward state is from the last letter, the backward state from the first.
    """
    _, (hidden, _) = nn.LSTM(SIZE, SIZE // 2, 2, "bidirect")(x)
    return paddle.concat([hidden[2], hidden[3]], axis=1)


def build(network: Callable[[Any], Any]) -> tuple[static.Program, static.Program, Any]:
    """Build the training program, its startup program, and the loss."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with static.program_guard(main, startup):
        letters = static.data("letters", [None, None], "int64")
        answer = static.data("answer", [None, 1], "int64")
        scores = nn.Linear(SIZE, LETTERS)(network(nn.Embedding(LETTERS, SIZE)(letters)))
        loss = F.cross_entropy(scores, answer)
        paddle.optimizer.Adam(0.005).minimize(loss)
    return main, startup, loss


def batches(count: int) -> Iterator[dict[str, Any]]:
    """Draw lines of 5 to 40 letters, 1 to 16 at a time."""
    generator = np.random.default_rng(0)
    for _ in range(count):
        rows, length = generator.integers(1, 17), generator.integers(5, 41)
        letters = generator.integers(0, LETTERS, (rows, length))
        counts = np.stack([(letters == letter).sum(1) for letter in range(LETTERS)], 1)
        yield {"letters": letters, "answer": counts.argmax(1)[:, None]}


def train(
    network: Callable[[Any], Any], buckets: Buckets | None, steps: int
) -> tuple[list[float], dict[str, Any], float]:
    """Train a network; return the losses, the executor's statistics, and the seconds."""
    main, startup, loss = build(network)
    with static.scope_guard(static.Scope()):
        executor = static.Executor(paddle.CPUPlace(), buckets=buckets)
        executor.run(startup)
        start = time.perf_counter()
        losses = [
            float(executor.run(main, feed=feed, fetch_list=[loss])[0]) for feed in batches(steps)
        ]
        return losses, executor.stats, time.perf_counter() - start


def compare(
    network: Callable[[Any], Any], steps: int = 30
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train with buckets and without, and compare losses and compiled programs."""
    exact, exact_stats, exact_seconds = train(network, None, steps)
    found, stats, seconds = train(network, BUCKETS, steps)
    np.testing.assert_allclose(found, exact, rtol=2e-3)
    print(f"{network.__name__}:")
    print(f"  as they are: {exact_stats['compiled_shapes'] - 1} shapes, {exact_seconds:.1f} s")
    print(f"  in buckets:  {stats['compiled_shapes'] - 1} shapes, {seconds:.1f} s")
    print(f"  the losses agree; the last is {found[-1]:.4f}")
    return exact_stats, stats


def main() -> None:
    """Compare both networks."""
    paddle.enable_static()
    for network in (transformer, lstm):
        compare(network)


if __name__ == "__main__":
    main()
