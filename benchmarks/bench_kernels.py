"""The gain of FLAGS_graphopt_kernels=on: training steps with oneDNN's kernels and without.

    python benchmarks/bench_kernels.py [--rounds 15] [--only transformer]

The forms are tried first, in a child process. The two programs then alternate, in the opposite
order every other round; a ratio is the median of the ratios within each round, with its quartiles,
for processor time of the whole process and for wall time. `taskset -c 0` makes it one core.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphopt as paddle
import graphopt.static as static
from graphopt.runtime.compile.kernel_forms import KernelTrial, write_verdicts
from graphopt.runtime.settings.flags import CACHE, KERNELS, TIER

SEED = 5


def layer(draw: np.random.Generator) -> tuple[Any, Mapping[str, Any]]:
    """Build two linear layers over 1024 rows of 256; return the output and the feed."""
    x = static.data("x", [1024, 256], "float32")
    hidden = static.nn.fc(x, 1024, activation="relu")
    return static.nn.fc(hidden, 256), {"x": draw.normal(size=(1024, 256)).astype("float32")}


def transformer(draw: np.random.Generator) -> tuple[Any, Mapping[str, Any]]:
    """Build two encoder layers of width 256 over 8 sequences of 128 words."""
    x = static.data("x", [8, 128, 256], "float32")
    out: Any = x
    for _ in range(2):
        out = paddle.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu")(out)
    return out, {"x": draw.normal(size=(8, 128, 256)).astype("float32")}


def convolutions(draw: np.random.Generator) -> tuple[Any, Mapping[str, Any]]:
    """Build three 3 x 3 convolutions over 8 images of 56 x 56 and 28 x 28."""
    x = static.data("x", [8, 64, 56, 56], "float32")
    out: Any = paddle.nn.functional.relu(paddle.nn.Conv2D(64, 64, 3, padding=1)(x))
    out = paddle.nn.functional.relu(paddle.nn.Conv2D(64, 128, 3, stride=2, padding=1)(out))
    out = paddle.nn.Conv2D(128, 128, 3, padding=1)(out)
    return out, {"x": draw.normal(size=(8, 64, 56, 56)).astype("float32")}


NETWORKS = {made.__name__: made for made in (layer, transformer, convolutions)}


def step_of(network: str, setting: str) -> Callable[[], float]:
    """Build a training step of a program that is compiled under a setting of the flag."""
    paddle.set_flags({KERNELS: setting})
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        paddle.seed(SEED)
        out, feed = NETWORKS[network](np.random.default_rng(SEED))
        loss = paddle.mean(out * out)
        paddle.optimizer.SGD(0.01).minimize(loss)
    exe, scope = static.Executor(), static.Scope()
    exe.run(startup, scope=scope)

    def step() -> float:
        found: Any = exe.run(main, feed=feed, fetch_list=[loss], scope=scope)
        return float(found[0])

    step()
    if setting == "on":
        report = paddle.explain(main, fetch_list=[loss])
        print(f"{network}: {report.applied('choose-kernel')} ops with a kernel")
        for row in report.refusals():
            if row.kind == "no-kernel":
                print("  ", row.text)
    return step


def seconds(step: Callable[[], float], runs: int) -> tuple[float, float]:
    """Measure processor time and wall time of one step."""
    processor, wall = time.process_time(), time.perf_counter()
    for _ in range(runs):
        step()
    return (time.process_time() - processor) / runs, (time.perf_counter() - wall) / runs


def measure(network: str, rounds: int, runs: int) -> None:
    """Print the ratios of one network."""
    steps = {setting: step_of(network, setting) for setting in ("off", "on")}
    losses = {setting: [step() for _ in range(3)] for setting, step in steps.items()}
    away = max(abs(a - b) / abs(b) for a, b in zip(losses["on"], losses["off"], strict=True))
    ratios: list[tuple[float, float]] = []
    for at in range(rounds):
        order = ("off", "on") if at % 2 else ("on", "off")
        found = {setting: seconds(steps[setting], runs) for setting in order}
        ratios.append((found["on"][0] / found["off"][0], found["on"][1] / found["off"][1]))
    for name, values in zip(("processor", "wall"), zip(*ratios, strict=True), strict=True):
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{network}: {name} time x {middle:.3f} [{low:.3f}-{high:.3f}]")
    print(f"{network}: losses differ by {away:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=NETWORKS)
    args = parser.parse_args()
    paddle.set_flags({CACHE: "", TIER: "full"})
    verdicts = KernelTrial().verdicts()
    assert verdicts is not None
    write_verdicts(verdicts)
    for network in [args.only] if args.only else NETWORKS:
        measure(network, args.rounds, args.runs)


if __name__ == "__main__":
    main()
