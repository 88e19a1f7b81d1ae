"""A Transformer encoder layer with the attention and feed-forward fusions against without them.

Forward, and a whole training step, at several sequence lengths; one device. Both programs must
compute the same numbers. They alternate, and the ratio is the median over the rounds, so that a
busy machine slows both alike. Prints a Markdown table.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphopt as paddle
import graphopt.nn as nn
import graphopt.static as static

LENGTHS = (128, 512, 1024)
BATCH, WIDTH, HEADS, HIDDEN = 2, 256, 4, 1024
ROUNDS = 7
FLAGS = {
    "fused_attention": ("fused_attention",),
    "fused_feedforward": ("fused_feedforward",),
    "fuse_dot_product_attention": ("fuse_dot_product_attention",),
    "all three": ("fused_attention", "fused_feedforward", "fuse_dot_product_attention"),
}

Step = Callable[[], np.ndarray[Any, Any]]


def step_of(length: int, flags: tuple[str, ...], *, training: bool) -> Step:
    """Return a function that runs the layer once with these flags, in its own program and scope."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        paddle.seed(0)
        x = static.data("x", [BATCH, length, WIDTH])
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu")
        loss = paddle.mean(paddle.square(layer(x)))
        if training:
            paddle.optimizer.SGD(0.001).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    strategy = static.BuildStrategy()
    for flag in flags:
        setattr(strategy, flag, True)
    program = static.CompiledProgram(main, build_strategy=strategy)
    feed = {"x": np.random.default_rng(0).standard_normal((BATCH, length, WIDTH)).astype("float32")}
    return lambda: executor.run(program, feed=feed, fetch_list=[loss], scope=scope)[0]


def time_of(step: Step) -> float:
    """Measure the seconds of one step."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure(length: int, *, training: bool) -> dict[str, float]:
    """Measure the ratio to the program without flags, for each row of FLAGS."""
    plain = step_of(length, (), training=training)
    fused = {name: step_of(length, flags, training=training) for name, flags in FLAGS.items()}
    wanted = plain()
    for step in fused.values():
        np.testing.assert_allclose(step(), wanted, rtol=1e-4)
    ratios: dict[str, list[float]] = {name: [] for name in fused}
    for number in range(ROUNDS):
        order = [plain, *fused.values()]
        taken = {step: time_of(step) for step in (order if number % 2 else order[::-1])}
        for name, step in fused.items():
            ratios[name].append(taken[step] / taken[plain])
    return {name: statistics.median(values) for name, values in ratios.items()}


def main() -> None:
    """Measure every length, forward and in training."""
    paddle.set_flags({"FLAGS_graphopt_tier": "full"})  # keeps each step's form during a measurement
    print("| length | " + " | ".join(FLAGS) + " |")
    print("|---|" + "---|" * len(FLAGS))
    for training in (False, True):
        for length in LENGTHS:
            ratios = measure(length, training=training)
            what = "training step" if training else "forward"
            row = " | ".join(f"{ratio:.2f}" for ratio in ratios.values())
            print(f"| {length}, {what} | {row} |", flush=True)


if __name__ == "__main__":
    main()
