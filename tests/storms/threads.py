"""`make storms`: two threads run steps at once, and no step is lost or computed twice.

    python tests/storms/threads.py [STEPS]

Each case runs STEPS steps in all, by default 10,000. The weight and the feeds are whole
numbers, so each loss is exact, and there is one order of losses. Prints a table with the memory
before and after; the exit status is 1 when a loss was wrong, or when memory grew.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphopt as paddle
from graphopt import static

STEPS = 10_000
MOST_MB = 8.0
"""The memory by which a process may grow in a case: the collector of Python runs when it likes."""
SIZES = (3, 5)


class Training(NamedTuple):
    """A weight of four numbers; a step subtracts 1 from each, and its loss is the sum before."""

    program: static.Program
    loss: Any
    scope: static.Scope

    @classmethod
    def new(cls, executor: static.Executor) -> Training:
        """Build a training whose weight is 0."""
        main, startup, scope = static.Program(), static.Program(), static.Scope()
        with static.program_guard(main, startup):
            x = static.data("x", [4], "float32")
            zero = paddle.nn.initializer.Constant(0.0)
            weight = paddle.create_parameter([4], "float32", default_initializer=zero)
            loss = paddle.sum(x * weight)
            paddle.optimizer.SGD(1.0).minimize(loss)
        executor.run(startup, scope=scope)
        return cls(main, loss, scope)

    def run(self, executor: static.Executor) -> float:
        """Run a step and return its loss."""
        feed = {"x": np.ones(4, "float32")}
        (loss,) = executor.run(self.program, feed, [self.loss], scope=self.scope)
        return float(np.asarray(loss))


def losses_of(steps: int) -> list[float]:
    """List the losses of so many steps in a row."""
    return [-4.0 * step for step in range(steps)]


def beside(runs: Sequence[Callable[[], float]], steps: int) -> list[list[float]]:
    """Run each function in its own thread for its share of the steps; return the results."""
    found: list[list[float]] = [[] for _ in runs]
    failed: list[BaseException] = []
    start = threading.Barrier(len(runs))

    def work(run: Callable[[], float], into: list[float]) -> None:
        try:
            start.wait()
            into.extend(run() for _ in range(steps // len(runs)))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(runs, found, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found


def one_training(executors: Sequence[static.Executor]) -> Callable[[int], bool]:
    """Build a case: two threads train the same weight, and each loss occurs once."""

    def is_right(steps: int) -> bool:
        training = Training.new(executors[0])
        each = [lambda executor=executor: training.run(executor) for executor in executors]
        found = beside(each, steps)
        in_order = all(sorted(one, reverse=True) == one for one in found)
        return in_order and sorted(chain(*found), reverse=True) == losses_of(steps)

    return is_right


def two_trainings(executors: Sequence[static.Executor]) -> Callable[[int], bool]:
    """Build a case: each thread trains its own weight with its own program."""

    def is_right(steps: int) -> bool:
        trainings = [Training.new(executor) for executor in executors]
        pairs = zip(trainings, executors, strict=True)
        each = [lambda one=one, executor=executor: one.run(executor) for one, executor in pairs]
        return beside(each, steps) == [losses_of(steps // 2)] * 2

    return is_right


def one_inference(executors: Sequence[static.Executor]) -> Callable[[int], bool]:
    """Build a case: two threads run a program with feeds of two sizes; 0 is the right result."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4], "float32")
        out = paddle.sum(x * x, axis=1)

    def run(executor: static.Executor, size: int) -> float:
        rows = np.full((size, 4), size, "float32")
        (found,) = executor.run(main, {"x": rows}, [out])
        return float(np.abs(found - np.full(size, 4.0 * size * size)).sum())

    def in_turns(executor: static.Executor, first: int) -> Callable[[], float]:
        sizes = [SIZES[first], SIZES[1 - first]]
        return lambda: sum(run(executor, size) for size in sizes)

    def is_right(steps: int) -> bool:
        each = [in_turns(executor, first) for first, executor in enumerate(executors)]
        return not any(map(any, beside(each, steps // 2)))

    return is_right


def memory_mb() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * 4096 / 1e6


def main() -> int:
    """Run each case, and print a line for each."""
    paddle.enable_static()
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    kinds = {
        "one training": one_training,
        "two trainings": two_trainings,
        "one inference, two sizes": one_inference,
    }
    print("| what two threads run | executors | steps | right | MB before | after | seconds |")
    print("|---|---|---|---|---|---|---|")
    failed = False
    for name, kind in kinds.items():
        for count in (1, 2):
            one = static.Executor(paddle.CPUPlace())
            executors = [one, one if count == 1 else static.Executor(paddle.CPUPlace())]
            is_right = kind(executors)
            is_right(steps)  # the compiled form takes over, for which JAX is imported
            before, began = memory_mb(), time.perf_counter()
            right = is_right(steps)
            seconds, after = time.perf_counter() - began, memory_mb()
            failed |= not right or after - before > MOST_MB
            print(
                f"| {name} | {count} | {steps} | {'yes' if right else '**no**'} | {before:.0f} | "
                f"{after:.0f} | {seconds:.1f} |",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
