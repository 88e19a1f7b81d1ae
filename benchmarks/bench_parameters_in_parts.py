"""The memory and traffic of a device with sharded parameters, on 8 simulated CPU devices.

    python benchmarks/bench_parameters_in_parts.py
    python benchmarks/bench_parameters_in_parts.py recommender

For each program, or each whose name contains a word: the bytes of a device that `explain` predicts,
the peak by XLA's memory analysis, their ratio, and the bytes that the collectives of XLA's code
carry in a step, in bytes of the parameters. See docs/explanation/updates-in-parts.md.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple
from itertools import pairwise
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.passes.parallel.shard_parameters import share_of

DEVICES = 8
Loss = tuple[Any, dict[str, Any]]
Optimizer = Callable[[], Any]

nn = paddle.nn


def adam() -> Any:
    return paddle.optimizer.Adam(0.01)


def adamw() -> Any:
    return paddle.optimizer.AdamW(0.01)


def momentum() -> Any:
    return paddle.optimizer.Momentum(0.01)


def clipped() -> Any:
    return paddle.optimizer.Adam(0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0))


def sgd() -> Any:
    return paddle.optimizer.SGD(0.01)


def _rows(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=(2 * DEVICES, *shape)).astype("float32")


def linear(layers: int, width: int) -> Loss:
    """Build linear layers with residual connections."""
    out = static.data("x", [None, width], "float32")
    for _ in range(layers):
        out = out + paddle.tanh(nn.Linear(width, width)(out))
    return paddle.mean(paddle.square(out)), {"x": _rows(width)}


def funnel(*widths: int) -> Loss:
    """Build linear layers of these widths."""
    out = static.data("x", [None, widths[0]], "float32")
    for before, after in pairwise(widths):
        out = paddle.tanh(nn.Linear(before, after)(out))
    return paddle.mean(paddle.square(out)), {"x": _rows(widths[0])}


def transformer(layers: int, width: int) -> Loss:
    """Build encoder layers."""
    out = static.data("x", [None, 8, width], "float32")
    for _ in range(layers):
        out = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0)(out)
    return paddle.mean(paddle.square(out - 1.0)), {"x": _rows(8, width)}


def decoder(layers: int, width: int, words: int, *, tied: bool) -> Loss:
    """Build a language model; a tied one uses its embedding table in the last product too."""
    ids = static.data("ids", [None, 8], "int64")
    table = nn.Embedding(words, width)
    out = table(ids)
    for _ in range(layers):
        out = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0)(out)
    if tied:
        logits = paddle.matmul(out, table.weight, transpose_y=True)
    else:
        logits = nn.Linear(width, words)(out)
    labels = paddle.unsqueeze(ids, -1)
    losses: Any = nn.functional.softmax_with_cross_entropy(logits, labels)
    chosen = np.random.default_rng(0).integers(0, words, (2 * DEVICES, 8))
    return paddle.mean(losses), {"ids": chosen}


def vision(layers: int, width: int) -> Loss:
    """Build a vision Transformer for images of 16 x 16 in patches of 8."""
    out = nn.Conv2D(3, width, 8, stride=8)(static.data("x", [None, 3, 16, 16], "float32"))
    out = paddle.transpose(paddle.flatten(out, 2), [0, 2, 1])
    for _ in range(layers):
        out = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0)(out)
    out = nn.Linear(width, 10)(paddle.mean(out, 1))
    return paddle.mean(paddle.square(out)), {"x": _rows(3, 16, 16)}


def recurrent(layers: int, width: int) -> Loss:
    """Build LSTM layers over 8 steps."""
    out, _ = nn.LSTM(width, width, layers)(static.data("x", [None, 8, width], "float32"))
    return paddle.mean(paddle.square(out)), {"x": _rows(8, width)}


def convolutions(*channels: int) -> Loss:
    """Build convolutions and a linear layer."""
    out, before = static.data("x", [None, 3, 16, 16], "float32"), 3
    for number in channels:
        out = nn.functional.relu(nn.Conv2D(before, number, 3, padding=1, stride=2)(out))
        before = number
    out = nn.Linear(before, 10)(paddle.mean(out, [2, 3]))
    return paddle.mean(paddle.square(out)), {"x": _rows(3, 16, 16)}


def recommender(*sizes: int, width: int = 64) -> Loss:
    """Build tables with parallel look-ups, and two linear layers."""
    found, feed = [], {}
    for number, size in enumerate(sizes):
        ids = static.data(f"ids{number}", [None], "int64")
        found.append(nn.Embedding(size, width)(ids))
        feed[f"ids{number}"] = np.arange(2 * DEVICES)
    out = nn.functional.relu(nn.Linear(width * len(sizes), 512)(paddle.concat(found, 1)))
    return paddle.mean(paddle.square(nn.Linear(512, 1)(out))), feed


PROGRAMS: dict[str, tuple[Callable[[], Loss], Optimizer]] = {
    "8 linear layers of 512, Adam": (lambda: linear(8, 512), adam),
    "the same with gradients clipped by their norm": (lambda: linear(8, 512), clipped),
    "6 linear layers of 512, SGD": (lambda: linear(6, 512), sgd),
    "24 linear layers of 512 in a loop, Adam": (lambda: linear(24, 512), adam),
    "16 linear layers of 384 in a loop, Momentum": (lambda: linear(16, 384), momentum),
    "300-700-200-900-300, Momentum": (lambda: funnel(300, 700, 200, 900, 300), momentum),
    "1024-256-1024-256-1024, Adam": (lambda: funnel(1024, 256, 1024, 256, 1024), adam),
    "6 Transformer layers of 256, AdamW": (lambda: transformer(6, 256), adamw),
    "3 Transformer layers of 512, AdamW": (lambda: transformer(3, 512), adamw),
    "12 Transformer layers of 256 in a loop, AdamW": (lambda: transformer(12, 256), adamw),
    "12 Transformer layers of 256 in a loop, Adam": (lambda: transformer(12, 256), adam),
    "4 decoder layers of 256, 4,096 words, a tied table, AdamW": (
        lambda: decoder(4, 256, 4096, tied=True),
        adamw,
    ),
    "12 of them in a loop, Adam": (lambda: decoder(12, 256, 4096, tied=True), adam),
    "4 decoder layers of 256, 4,096 words, nothing tied, AdamW": (
        lambda: decoder(4, 256, 4096, tied=False),
        adamw,
    ),
    "12 such layers in a loop, AdamW": (lambda: decoder(12, 256, 4096, tied=False), adamw),
    "vision Transformer, 4 layers of 256, AdamW": (lambda: vision(4, 256), adamw),
    "the same with 12 layers in a loop": (lambda: vision(12, 256), adamw),
    "2 LSTM layers of 512, Adam": (lambda: recurrent(2, 512), adam),
    "3 convolutions up to 512 channels, Momentum": (
        lambda: convolutions(256, 512, 512),
        momentum,
    ),
    "recommender, four tables of 20,000 x 64, Adam": (
        lambda: recommender(*(20_000,) * 4),
        adam,
    ),
    "recommender, one table of 40,000 x 64, Adam": (lambda: recommender(40_000), adam),
    "recommender, tables of 1,000 to 30,000 x 64, Adam": (
        lambda: recommender(30_000, 1_000, 20_000, 5_000, 25_000, 10_000),
        adam,
    ),
}


def bytes_carried(hlo: str) -> int:
    """Sum the bytes of the whole values of all collectives in HLO; a loop counts each iteration.

    An all-reduce counts twice: as a reduce-scatter and an all-gather.
    """
    turns = dict(re.findall(r'body=%(\S+?),.*"known_trip_count":\{"n":"(\d+)"\}', hlo))
    total = 0
    for computation in re.split(r"\n\n", hlo):
        name = computation.lstrip().removeprefix("%").partition(" ")[0]
        pattern = r"= f32\[([\d,]*)\]\S* (all-gather|reduce-scatter|all-reduce)\("
        for shape, kind in re.findall(pattern, computation):
            size = 4 * math.prod(map(int, filter(None, shape.split(","))))
            size *= int(turns.get(name, 1))
            total += size * (DEVICES if kind == "reduce-scatter" else 1)
            total += size * (kind == "all-reduce")
    return total


def measured(name: str) -> str:
    """Measure one program, and format its row of the table."""
    main, startup = static.Program(), static.Program()
    with (
        static.program_guard(main, startup),
        static.scope_guard(static.Scope()),
        paddle.utils.unique_name.guard(),
    ):
        make, optimizer = PROGRAMS[name]
        loss, feed = make()
        optimizer().minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        strategy = static.BuildStrategy()
        strategy.shard_parameters = True
        program = static.CompiledProgram(main).with_data_parallel(
            loss.name, strategy, places=static.cpu_places(DEVICES)
        )
        executor.run(program, feed, [loss])
        (executable,) = program._runner.executables()  # pyright: ignore
        compiled: Any = executable.function
        memory = compiled.memory_analysis()
        share = share_of(executable.compiled.module)
        assert share is not None
        hlo = program.text("hlo")
    said = sum(astuple(share))
    peak = (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )
    parameters = sum(4 * math.prod(each.shape) for each in main.all_parameters())
    sent = bytes_carried(hlo) / parameters
    return (
        f"| {name} | {said / 1e6:.2f} | {peak / 1e6:.2f} | {said / peak - 1:+.1%} | {sent:.2f} P |"
    )


def table(word: str) -> Iterator[str]:
    """Yield the rows of all programs whose names contain a word."""
    yield "| program | `explain`, MB | XLA, MB | off | traffic |"
    yield "|---|-:|-:|-:|-:|"
    for name in PROGRAMS:
        if word in name:
            yield measured(name)


if __name__ == "__main__":
    os.environ["CPU_NUM"] = str(DEVICES)  # must be set before JAX starts
    paddle.enable_static()
    for row in table(" ".join(sys.argv[1:])):
        print(row, flush=True)
