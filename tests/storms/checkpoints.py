"""Kills savers at random moments, and reads their files meanwhile: no set of files may be mixed.

`make storm-checkpoints` runs it; `python tests/storms/checkpoints.py COUNT --seed N` does it COUNT
times for each way to save. Every array of a save holds the number of the save, so a reader that
finds two numbers has mixed two saves. It also counts files that cannot be read after a kill, and
temporaries that remain after a later save has succeeded.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphopt as paddle
from graphopt import fluid, static

SIZE = 96
X = "x"


class Net(NamedTuple):
    """A program with parameters and optimizer state, and the part of it that predicts."""

    main: Any
    feed: Any
    out: Any


def make_net() -> Net:
    """Build a perceptron trained by Adam."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = static.data(X, [None, SIZE], "float32")
        out = static.nn.fc(static.nn.fc(x, SIZE), SIZE)
        paddle.optimizer.Adam(0.1).minimize(paddle.mean(out))
    return Net(main, x, out)


def fill(net: Net, number: int) -> None:
    """Set every saved variable to this number."""
    for variable in net.main.list_vars():
        if variable.persistable:
            value = np.full(variable.shape, number, variable.dtype.numpy)
            static.global_scope().var(variable.name).put(value)


def numbers(arrays: Any) -> set[int]:
    """Return the numbers of the saves that arrays come from."""
    return {int(n) for array in arrays for n in np.unique(np.asarray(array))}


def _read_pair(folder: Path, net: Net) -> set[int]:
    return numbers(static.load_program_state(str(folder / "m")).values())


def _save_model(folder: Path, net: Net) -> None:
    static.save_inference_model(str(folder / "m"), net.feed, net.out, None, program=net.main)


def _read_model(folder: Path, net: Net) -> set[int]:
    return numbers(paddle.load(str(folder / "m")).values())


def _read_folder(folder: Path, net: Net) -> set[int]:
    return numbers(paddle.load(str(folder)).values())


class Way(NamedTuple):
    """A way to save: a writer into a folder, and a reader of the saves in it."""

    name: str
    save: Callable[[Path, Net], Any]
    read: Callable[[Path, Net], set[int]]


WAYS = (
    Way("save", lambda folder, net: static.save(net.main, str(folder / "m")), _read_pair),
    Way("save_inference_model", _save_model, _read_model),
    Way(
        "save_persistables",
        lambda folder, net: fluid.io.save_persistables(None, str(folder), net.main),
        _read_folder,
    ),
)


def start_saver(way: Way, net: Net, folder: Path, first: int) -> int:
    """Fork a child that saves one number after another until it is killed; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        for number in range(first, first + 1_000_000, 2):
            fill(net, number)
            way.save(folder, net)
    except BaseException as error:
        print(f"saver: {type(error).__name__}: {error}", file=sys.stderr)
    os._exit(1)


def kill(child: int) -> int:
    """Kill a child with SIGKILL; return its exit status."""
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def look(way: Way, net: Net, folder: Path, found: Counter[str]) -> None:
    """Read once and count the outcome."""
    try:
        seen = way.read(folder, net)
    except Exception as error:
        found[f"unreadable: {type(error).__name__}"] += 1
        return
    found["mixed" if len(seen) > 1 else "whole"] += 1


def temporaries(folder: Path) -> int:
    """Count the hidden files in a folder."""
    return sum(file.name.startswith(".") for file in folder.iterdir())


def storm(way: Way, count: int, chance: random.Random) -> dict[str, Counter[str]]:
    """Kill `count` savers, with one reader and with two; return the outcomes of each."""
    net = make_net()
    results: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(net, 0)
        way.save(folder, net)
        started = time.perf_counter()
        way.save(folder, net)
        # at any moment of the first three saves
        span = 3 * (time.perf_counter() - started)

        after_kill = results["after kill -9"] = Counter()
        for index in range(count):
            child = start_saver(way, net, folder, 2 * index + 1)
            time.sleep(chance.uniform(0, span))
            if os.WIFEXITED(kill(child)):
                after_kill["saver failed"] += 1
            after_kill["left behind"] += temporaries(folder)
            look(way, net, folder, after_kill)
        fill(net, 0)
        way.save(folder, net)
        after_kill["left after the next save"] = temporaries(folder)

        for savers in (1, 2):
            beside = results[f"beside {savers} saving"] = Counter()
            children = [start_saver(way, net, folder, n) for n in range(savers)]
            for _ in range(count):
                time.sleep(chance.uniform(0, span / 10))
                look(way, net, folder, beside)
            beside["saver failed"] += sum(os.WIFEXITED(kill(child)) for child in children)
            fill(net, 0)
            way.save(folder, net)
            beside["left after the next save"] = temporaries(folder)
    return results


def is_sound(found: Counter[str]) -> bool:
    """Return whether all reads saw whole saves, and no temporaries remained."""
    return not any(count for what, count in found.items() if what not in ("whole", "left behind"))


def main() -> int:
    """Run every way to save; return 1 when a set was mixed or unreadable."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    paddle.enable_static()
    warnings.simplefilter("ignore")
    sound = True
    for way in WAYS:
        for when, found in storm(way, options.count, random.Random(options.seed)).items():
            shown = ", ".join(f"{what} {n}" for what, n in sorted(found.items()) if n)
            print(f"{way.name}, {when}: {shown}", flush=True)
            sound &= is_sound(found)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
