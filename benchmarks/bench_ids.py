"""The cost of the check of fed ids in a training step: an embedding, a layer and SGD.

    python benchmarks/bench_ids.py [--rounds 15]

Steps with and without the check alternate, in the opposite order every other round; a ratio is the
median of the ratios within each round. Times are processor time of the whole process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import graphopt as paddle
import graphopt.static as static
from graphopt.runtime.settings.flags import IDS

# rows of a batch, ids in a row, rows of the table, width of the table
SIZES = ((32, 1, 1000, 16), (32, 128, 30_000, 64), (256, 128, 30_000, 64))


def step_of(rows: int, words: int, table: int, width: int) -> Callable[[], None]:
    """Build a training step that always feeds the same batch."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        ids = static.data("ids", [None, words], "int64")
        label = static.data("label", [None, 1], "int64")
        hidden = paddle.mean(static.nn.embedding(ids, (table, width), is_sparse=True), axis=1)
        loss = paddle.mean(paddle.nn.functional.cross_entropy(static.nn.fc(hidden, 10), label))
        paddle.optimizer.SGD(0.1).minimize(loss)
    exe, scope = static.Executor(), static.Scope()
    exe.run(startup, scope=scope)
    draw = np.random.default_rng(0)
    feed = {
        "ids": draw.integers(0, table, (rows, words)),
        "label": draw.integers(0, 10, (rows, 1)),
    }

    def step() -> None:
        exe.run(main, feed=feed, fetch_list=[loss], scope=scope)

    step()
    return step


def seconds(step: Callable[[], None], runs: int, *, checked: bool) -> float:
    """Measure the processor time of one step."""
    paddle.set_flags({IDS: checked})
    start = time.process_time()
    for _ in range(runs):
        step()
    return (time.process_time() - start) / runs


def measure(step: Callable[[], None], rounds: int, runs: int) -> tuple[float, float]:
    """Measure seconds of a step without the check, and the median ratio of a step with it."""
    plain: list[float] = []
    ratios: list[float] = []
    for number in range(rounds):
        order = (False, True) if number % 2 else (True, False)
        found = {checked: seconds(step, runs, checked=checked) for checked in order}
        plain.append(found[False])
        ratios.append(found[True] / found[False])
    return statistics.median(plain), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=100, help="steps in a round")
    options = parser.parse_args()
    paddle.enable_static()
    print("| ids | table | step, us | with the check |\n|---|---|---|---|")
    for rows, words, table, width in SIZES:
        plain, ratio = measure(step_of(rows, words, table, width), options.rounds, options.runs)
        print(f"| {rows} x {words} | {table} x {width} | {plain * 1e6:.0f} | {ratio:.3f} x |")


if __name__ == "__main__":
    main()
