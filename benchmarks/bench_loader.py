"""Feeding by paddle.io.DataLoader against a list of arrays made before the first step.

    python benchmarks/bench_loader.py [--steps 40] [--rounds 5]

The same small network takes the same batches from a list, from a loader without workers, and from
the generator loader of Paddle 1.8. The rounds of the three are interleaved, and the fastest counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import fluid, io, static

BATCH, WIDTH = 64, 256


class Rows(io.Dataset):
    """Rows of random numbers and their sums, made on access."""

    def __init__(self, count: int) -> None:
        self.rows = np.random.RandomState(0).rand(count, WIDTH).astype("float32")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self.rows[idx], self.rows[idx].sum(keepdims=True)


def main(steps: int, rounds: int) -> dict[str, float]:
    """Measure each way of feeding, in seconds; each step computes, and its loss is fetched."""
    paddle.enable_static()
    data = Rows(steps * BATCH)
    x, y = static.data("x", [None, WIDTH]), static.data("y", [None, 1])
    hidden = static.nn.fc(static.nn.fc(x, 512, activation="relu"), 512, activation="relu")
    loss = paddle.mean((static.nn.fc(hidden, 1) - y) ** 2)
    paddle.optimizer.SGD(learning_rate=0.001).minimize(loss)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    place, feeds = paddle.CPUPlace(), [x, y]
    loader = io.DataLoader(data, feeds, places=place, batch_size=BATCH, return_list=False)
    listed = [feed for (feed,) in loader()]
    generator = fluid.io.DataLoader.from_generator(feeds, capacity=4)
    samples = paddle.batch(lambda: (data[n] for n in range(len(data))), BATCH)
    generator.set_sample_list_generator(samples, places=place)
    ways: dict[str, Callable[[], Iterable[Any]]] = {
        "list of arrays": lambda: listed,
        "paddle.io.DataLoader": lambda: (feed for (feed,) in loader()),
        "DataLoader.from_generator": lambda: (feed for (feed,) in generator()),
    }
    best = dict.fromkeys(ways, float("inf"))
    for number in range(rounds + 1):  # the first round compiles
        for name, way in ways.items():
            began = time.perf_counter()
            for feed in way():
                exe.run(feed=feed, fetch_list=[loss])
            if number:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for name, seconds in main(args.steps, args.rounds).items():
        print(f"{name:28} {args.steps * BATCH / seconds:10.0f} rows/s")
