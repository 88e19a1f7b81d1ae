"""The memory of a long-lived process, over many programs, feed shapes and fetches.

    python tests/storms/held.py [--programs 40] [--shapes 300] [--fetches 31]

One Executor runs programs that are dropped, then one program with many feed shapes, then fetches
one variable after another. For each, the growth of the process is printed at a quarter, half, three
quarters and the end, and the executor's live entries.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static


@dataclass(frozen=True)
class Held:
    """The growth of the process in MiB after each quarter, the live objects, and the counts."""

    what: str
    grown: tuple[float, ...]
    alive: int
    stats: dict[str, Any]

    @property
    def late(self) -> float:
        """The growth in the second half."""
        return self.grown[-1] - self.grown[1]

    def __str__(self) -> str:
        steps = ", ".join(f"{grown:.1f}" for grown in self.grown)
        return f"{self.what}: grew by {steps} MiB; alive {self.alive}; {self.stats['reasons']}"


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def chain(layers: int = 3, width: int = 64, *, train: bool = True) -> tuple[Any, Any, str]:
    """Build a program and its startup program; return them with the name of the loss."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        h = static.data("x", [-1, width], "float32")
        for _ in range(layers):
            h = static.nn.fc(h, width, activation="relu")
        loss = paddle.mean(h)
        if train:
            paddle.optimizer.SGD(0.01).minimize(loss)
    return main, startup, loss.name


def grown(count: int, step: Callable[[int], object], warm: int) -> tuple[float, ...]:
    """Measure the growth over `count` steps at each quarter, after `warm` steps."""
    found: list[float] = []
    start = resident()
    for number in range(count):
        step(number)
        if number + 1 == warm:
            gc.collect()
            start = resident()
        if (number + 1) * 4 // count > len(found):
            gc.collect()
            found.append(resident() - start)
    return tuple(found)


def programs(count: int) -> Held:
    """Build programs, train each for a step, and drop it."""
    exe = static.Executor(paddle.CPUPlace())
    made: list[weakref.ref[Any]] = []

    def step(_: int) -> None:
        main, startup, loss = chain()
        scope = static.Scope()
        exe.run(startup, scope=scope)
        exe.run(main, feed={"x": np.ones((2, 64), "float32")}, fetch_list=[loss], scope=scope)
        made.append(weakref.ref(main))

    found = grown(count, step, max(count // 8, 1))
    return Held(f"{count} programs", found, sum(ref() is not None for ref in made), exe.stats)


def shapes(count: int) -> Held:
    """Run one program with feeds of 1, 2, 3 ... rows."""
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    main, startup, loss = chain(2, 16)
    exe.run(startup, scope=scope)

    def step(number: int) -> None:
        feed = {"x": np.ones((number + 1, 16), "float32")}
        exe.run(main, feed=feed, fetch_list=[loss], scope=scope)

    found = grown(count, step, max(count // 8, 1))
    kept = len(exe._runner.executables())
    return Held(f"{count} feed shapes", found, kept, exe.stats)


def fetches(count: int) -> Held:
    """Run one program, and fetch one variable after another."""
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    main, startup, _ = chain(max(count // 3, 1), 16)
    names = [name for op in main.global_block().ops for name in op.output_arg_names]
    plain = [n for n in names if not main.global_block().var(n).persistable][:count]
    exe.run(startup, scope=scope)

    def step(number: int) -> None:
        feed = {"x": np.ones((2, 16), "float32")}
        exe.run(main, feed=feed, fetch_list=[plain[number % len(plain)]], scope=scope)

    found = grown(count, step, max(count // 8, 1))
    return Held(f"{count} fetches", found, len(exe._runner.all_compiled()), exe.stats)


def main(arguments: Sequence[str]) -> int:
    """Run the requested cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--shapes", type=int, default=300)
    parser.add_argument("--fetches", type=int, default=31)
    given = parser.parse_args(arguments)
    paddle.enable_static()
    for run, count in (
        (programs, given.programs),
        (shapes, given.shapes),
        (fetches, given.fetches),
    ):
        if count:
            print(run(count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
