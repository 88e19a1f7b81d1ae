"""From a program to an executable: the time that graphopt adds to XLA's compile time.

ResNet-50 in inference and training and a 12-layer Transformer in training are parsed, optimized
with every fusion on, traced by JAX, lowered to StableHLO and compiled by XLA at its default
optimization level. Nothing runs, so small machines suffice. Prints a Markdown table.

    python benchmarks/bench_executable.py [--runs 3] [--only resnet50]

Our share is parse and passes against XLA's compile time, all in CPU seconds of the process. XLA
compiles on several threads, so its share of the wall time is smaller.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static
from graphopt.ir.dialect.signature import Port
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.lowering import replication
from graphopt.passes.table.manager import optimize
from graphopt.runtime.devices.places import CPUPlace, device_of

FLAGS = (
    "fused_attention",
    "fused_feedforward",
    "fuse_dot_product_attention",
    "fuse_gemm_epilogue",
    "fuse_bn_add_act_ops",
    "fuse_bn_act_ops",
    "fuse_elewise_add_act_ops",
)
STAGES = ("front end", "parse", "passes", "trace", "lower", "XLA compile")


# -- models ----------------------------------------------------------------------------------------


def resnet50(classes: int = 1000) -> Any:
    """Build ResNet-50; return the logits of two images."""
    h = _conv(static.data("image", [2, 3, 224, 224]), 64, 7, stride=2)
    h = F.max_pool2d(h, kernel_size=3, stride=2, padding=1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for number in range(blocks):
            stride = 2 if stage and not number else 1
            short = h if number else _conv(h, 4 * width, 1, stride=stride, act=None)
            inner = _conv(_conv(h, width, 1), width, 3, stride=stride)
            h = F.relu(paddle.add(_conv(inner, 4 * width, 1, act=None), short))
    return static.nn.fc(F.adaptive_avg_pool2d(h, 1), classes)


def _conv(x: Any, width: int, size: int, *, stride: int = 1, act: str | None = "relu") -> Any:
    h = static.nn.conv2d(x, width, size, stride=stride, padding=size // 2, bias_attr=False)
    return static.nn.batch_norm(h, act=act)


def transformer(layers: int = 12, width: int = 256, heads: int = 4, words: int = 1000) -> Any:
    """Build a Transformer; return the logits of two sentences of 64 words."""
    h = static.nn.embedding(static.data("ids", [2, 64], "int64"), [words, width])
    for _ in range(layers):
        layer = paddle.nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu")
        h = layer(h)
    return static.nn.fc(h, words, num_flatten_dims=2)


def training(logits: Any, optimizer: Any) -> Any:
    """Minimize the loss of these logits, and return the loss."""
    label = static.data("label", [*logits.shape[:-1], 1], "int64")
    loss = paddle.mean(F.cross_entropy(logits, label))
    optimizer.minimize(loss)
    return loss


MODELS: dict[str, Callable[[], Any]] = {
    "resnet50 inference": resnet50,
    "resnet50 training": lambda: training(resnet50(), paddle.optimizer.Momentum(0.1)),
    "transformer training": lambda: training(transformer(), paddle.optimizer.AdamW(0.001)),
}


# -- measuring -------------------------------------------------------------------------------------


def prepared(build: Callable[[], Any], *, test: bool) -> tuple[static.Program, str]:
    """Build the program of a model; return it and the name of its result."""
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        name = build().name
    return (main.clone(for_test=True) if test else main), name


def stand_in(port: Port) -> Any:
    """Return the shape and dtype of an argument, with which JAX traces."""
    return jax.ShapeDtypeStruct(shape_of(port.type), dtype_of(port.type).numpy)


def once(build: Callable[[], Any], *, test: bool) -> tuple[dict[str, tuple[float, float]], int]:
    """Measure CPU and wall seconds of each stage, and count the ops that reach the lowering."""
    seconds: dict[str, tuple[float, float]] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        cpu, wall = time.process_time(), time.perf_counter()
        made = work()
        seconds[stage] = time.process_time() - cpu, time.perf_counter() - wall
        return made

    jax.clear_caches()
    program, fetch = timed("front end", lambda: prepared(build, test=test))
    feeds = [v.name for v in program.global_block().vars.values() if v.need_check_feed]
    module = timed("parse", lambda: parse_program(program, feeds, (fetch,)))
    strategy = static.BuildStrategy()
    for flag in FLAGS:
        setattr(strategy, flag, True)
    report = timed(
        "passes", lambda: optimize(module, strategy.pass_context(platform="cpu"), verify_each=False)
    )
    plan = replication.Plan.of(module)
    function = replication.alone(module, plan, device_of(CPUPlace()), donate=True).function
    groups = (plan.updated, plan.read_only, plan.feeds)
    arguments = [tuple(map(stand_in, ports)) for ports in groups]
    with jax.enable_x64(True):
        key = jax.ShapeDtypeStruct((2,), np.uint32)
        traced = timed("trace", lambda: function.trace(*arguments, key))
        lowered = timed("lower", traced.lower)
        timed("XLA compile", lowered.compile)
    return seconds, report.ops_after


def main() -> None:
    """Measure every model."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--only", default="")
    given = options.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    print(f"| model | ops | {' | '.join(STAGES)} | parse + passes / XLA | trace + lower / XLA |")
    print("|---|---|" + "---|" * (len(STAGES) + 2))
    for name, build in MODELS.items():
        if given.only not in name:
            continue
        runs = [once(build, test="inference" in name) for _ in range(given.runs)]
        cpu = {s: statistics.median(found[s][0] for found, _ in runs) for s in STAGES}
        wall = statistics.median(found["XLA compile"][1] for found, _ in runs)
        cells = [f"{cpu[stage]:.2f} s" for stage in STAGES]
        cells[-1] += f" ({wall:.2f} s waited)"
        ours, jaxs = cpu["parse"] + cpu["passes"], cpu["trace"] + cpu["lower"]
        xla = cpu["XLA compile"]
        cells += [f"{ours / xla:.1%}", f"{jaxs / xla:.1%}"]
        print(f"| {name} | {runs[0][1]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
