"""The cost of deferring interrupts while a step stores its state.

    python benchmarks/bench_interrupts.py [--rounds 60] [--steps 300]

The step of a net of two small layers runs unchanged, and by a function that does the same without
deferring signals and without the scope's lock. Both alternate in one process; it prints the medians
of the CPU time of a step and of the ratios within each round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.steps.executable import Executable
from graphopt.runtime.steps.run_hook import watcher


def unguarded(self: Executable, feeds: Mapping[str, Any], scope: Scope) -> tuple[Any, ...]:
    """Run `Executable.__call__` of a function on buffers, without its guards."""
    ordered = tuple([feeds[name] for name in self.fed])
    self.make_ready(feeds, scope)
    function, state = self.function, self.state
    assert function is not None
    with jax.enable_x64(True):
        slots = state.slots(scope)
        updated, read_only = state.take(slots, scope, state.prepare)
        key = state.next_key()
        if watcher() is not None:
            raise NotImplementedError
        fetches, written = function(updated, read_only, ordered, key)
        del updated
        state.store(slots, written, scope)
    return fetches


def step(width: int) -> Any:
    """Build a training step, and return a function that runs it."""
    x = static.data("x", [None, 4], "float32")
    loss = paddle.mean(static.nn.fc(static.nn.fc(x, width), 1))
    paddle.optimizer.Adam(0.001).minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    feed = {"x": np.ones((2, 4), "float32")}
    return lambda: exe.run(feed=feed, fetch_list=[loss])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=8)
    options = parser.parse_args()
    run, variants = step(options.width), {"guarded": Executable.__call__, "unguarded": unguarded}
    found: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(options.rounds + 1):
        for name in sorted(variants, reverse=bool(number % 2)):
            Executable.__call__ = variants[name]  # type: ignore[method-assign]
            start = time.process_time()
            for _ in range(options.steps):
                run()
            found[name].append((time.process_time() - start) / options.steps * 1e6)
    pairs = list(zip(found["guarded"][1:], found["unguarded"][1:], strict=True))
    for name, times in found.items():
        print(f"{name}: {statistics.median(times[1:]):.1f} us of CPU time a step")
    print(f"guarded / unguarded: {statistics.median(a / b for a, b in pairs):.3f}")


if __name__ == "__main__":
    main()
