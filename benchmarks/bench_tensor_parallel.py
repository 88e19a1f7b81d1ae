"""The memory and traffic of a device with a model axis, from the HLO of 8 simulated CPU devices.

    python benchmarks/bench_tensor_parallel.py

For each mesh of replicas and devices of a replica: the bytes of state on a device, its peak by
XLA's memory analysis, and the all-reduces and all-gathers of a step along each axis, with the bytes
of their values. See docs/explanation/communication.md.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static

DEVICES = 8
MESHES = ((8, 1), (4, 2), (2, 4), (1, 8))
WIDTH, LENGTH, BATCH = 512, 16, 16


def transformer() -> tuple[Any, dict[str, Any]]:
    """Build two encoder layers of eight heads with AdamW."""
    x = static.data("x", [None, LENGTH, WIDTH], "float32")
    out = x
    for _ in range(2):
        out = paddle.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0)(out)
    loss = paddle.mean(paddle.square(out - 1.0))
    paddle.optimizer.AdamW(0.01).minimize(loss)
    return loss, {"x": np.ones((BATCH, LENGTH, WIDTH), "float32")}


def recommender() -> tuple[Any, dict[str, Any]]:
    """Build four tables of 100,000 rows and three linear layers with Adam."""
    found, feed = [], {}
    for number in range(4):
        ids = static.data(f"ids{number}", [None], "int64")
        found.append(paddle.nn.Embedding(100_000, 32)(ids))
        feed[f"ids{number}"] = np.arange(BATCH)
    out = paddle.concat(found, 1)
    for width, wide in ((128, WIDTH), (WIDTH, WIDTH)):
        out = paddle.nn.functional.relu(paddle.nn.Linear(width, wide)(out))
    loss = paddle.mean(paddle.square(paddle.nn.Linear(WIDTH, 1)(out)))
    paddle.optimizer.Adam(0.01).minimize(loss)
    return loss, feed


MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "Transformer": transformer,
    "recommender": recommender,
}


def collectives(hlo: str, replicas: int, model: int) -> Counter[tuple[str, str]]:
    """Count the collectives in HLO and their bytes: by axis, "count" or "bytes"."""
    found: Counter[tuple[str, str]] = Counter()
    for line in hlo.splitlines():
        match = re.search(r"= (.*?) (all-reduce|all-gather)(?:-start)?\(", line)
        if match is None:
            continue
        sizes = [
            prod(map(int, filter(None, shape.split(","))))
            for shape in re.findall(r"f32\[([\d,]*)\]", match[1])
        ]
        groups = re.search(r"replica_groups=(?:\{\{([\d,]*)\}|\[(\d+),(\d+)\]<=\[(\S*?)\])", line)
        assert groups is not None, line
        along = int(groups[3]) if groups[3] else len(groups[1].split(","))
        inner = groups[4] == str(DEVICES) if groups[4] else "1" in groups[1].split(",")
        axis = "model" if along == model and (inner or replicas == 1) and model > 1 else "data"
        found[axis, "count"] += 1
        found[axis, "bytes"] += 4 * sum(sizes)
    return found


def measured(name: str, replicas: int, model: int) -> str:
    """Measure one mesh, and format its row of the table."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with (
        static.program_guard(main, startup),
        static.scope_guard(scope),
        paddle.utils.unique_name.guard(),
    ):
        loss, feed = MODELS[name]()
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        strategy = static.BuildStrategy()
        strategy.tensor_parallel_degree = model
        program = static.CompiledProgram(main).with_data_parallel(
            loss.name, strategy, places=static.cpu_places(DEVICES)
        )
        executor.run(program, feed, [loss])
        (executable,) = program._runner.executables()  # pyright: ignore
        compiled: Any = executable.function
        memory = compiled.memory_analysis()
        found = collectives(program.text("hlo"), replicas, model)
        held = sum(
            slot.value.addressable_shards[0].data.nbytes
            for variable in main.list_vars()
            if variable.persistable
            and (slot := scope.find_var(variable.name)) is not None
            and hasattr(slot.value, "addressable_shards")
        )
    peak = (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )
    axes = " | ".join(
        f"{found[axis, 'count']} of {found[axis, 'bytes'] / 1e6:.2f}" for axis in ("data", "model")
    )
    return f"| {name} | {replicas} x {model} | {held / 1e6:.1f} | {peak / 1e6:.1f} | {axes} |"


def table() -> Iterator[str]:
    """Yield the rows of all models and meshes."""
    yield "| | mesh | state MB | peak MB | data axis, MB | model axis, MB |"
    yield "|---|---|-:|-:|-:|-:|"
    for name in MODELS:
        for replicas, model in MESHES:
            yield measured(name, replicas, model)


if __name__ == "__main__":
    os.environ["CPU_NUM"] = str(DEVICES)  # must be set before JAX starts
    paddle.enable_static()
    for row in table():
        print(row, flush=True)
