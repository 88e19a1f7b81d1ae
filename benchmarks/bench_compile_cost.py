"""The cost per op of each stage before XLA, in programs of 1,000 to 100,000 ops.

The programs train: blocks with linear layers, attention, feed-forward, convolution with batch norm,
and work for the cleanups (identities, constants, repeated computations), then gradients and an
AdamW update of every parameter. A second program is the same forward part, read from the bytes of
its `.pdmodel` file. Linear stages cost the same per op at every size.

    python benchmarks/bench_compile_cost.py [--sizes 1000 10000 100000] [--json FILE]

Times are CPU time of this process, the median of several runs; prints Markdown tables.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.dot import to_dot
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.ir.formats.protobuf.program_desc import read_program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.report import Report

SIZES = (1_000, 10_000, 100_000)
MOST_RUNS = 9
OPS_PER_BLOCK = 46  # approximate, for `block` with its updates

# every flag that selects a pass on one device
FLAGS = (
    "fuse_relu_depthwise_conv",
    "fused_attention",
    "fused_feedforward",
    "fuse_dot_product_attention",
    "fuse_gemm_epilogue",
    "fuse_bn_add_act_ops",
    "fuse_bn_act_ops",
    "fuse_elewise_add_act_ops",
    "fuse_all_optimizer_ops",
    "fuse_adamw",
)

# Microseconds per op, by stage, in the order of the stages.
Costs = dict[str, float]


def strategy(*flags: str) -> static.BuildStrategy:
    """Build a strategy with these flags on."""
    made = static.BuildStrategy()
    for flag in flags:
        setattr(made, flag, True)
    return made


# -- programs --------------------------------------------------------------------------------------


def block(h: Any, image: Any) -> tuple[Any, Any]:
    """Append some layers on rows `h` [8, 16] and on images [8, 4, 4, 4]."""
    h = static.nn.fc(h, 16, activation="relu")
    query, key, value = (static.nn.fc(h, 16, bias_attr=False) for _ in range(3))
    weights = F.softmax(paddle.matmul(query, key, transpose_y=True) * 0.25)
    h = paddle.add(h, static.nn.fc(paddle.matmul(weights, value), 16))
    h = static.nn.layer_norm(h)
    inner = F.dropout(F.gelu(static.nn.fc(h, 32)), 0.1)
    h = static.nn.layer_norm(paddle.add(h, static.nn.fc(inner, 16)))
    bent = static.nn.conv2d(image, 4, filter_size=3, padding=1, bias_attr=False)
    bent = paddle.add(static.nn.batch_norm(bent), image)
    # patterns for clean-up passes: a constant, identities, and a repeated sum
    rate = paddle.full([1], 0.5) * paddle.full([1], 2.0)
    h = paddle.transpose(paddle.transpose(paddle.scale(h, 1.0), [1, 0]), [1, 0])
    h = paddle.add(paddle.tanh(paddle.add(h, rate)), paddle.tanh(paddle.add(h, rate)))
    return h, F.relu(bent)


def built(ops: int, *, training: bool) -> tuple[static.Program, str]:
    """Build a program of about `ops` ops in IR; return it and the name of its result."""
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        h = static.data("x", [8, 16])
        image = static.data("image", [8, 4, 4, 4])
        for _ in range(max(1, round(ops / OPS_PER_BLOCK))):
            h, image = block(h, image)
        result = paddle.add(paddle.mean(h), paddle.mean(image))
        if training:
            paddle.optimizer.AdamW(0.001).minimize(result)
    return main, result.name


# -- measuring -------------------------------------------------------------------------------------


class Clock:
    """CPU seconds of the stages of one run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the block."""
        gc.collect()
        start = time.process_time()
        yield
        self.seconds[name] = time.process_time() - start


def stages(load: Callable[[], static.Program], fetch: str, clock: Clock) -> tuple[int, Report]:
    """Run every stage once; return the number of ops in the module and the report of the passes."""
    with clock.stage("read the program"):
        program = load()
    with clock.stage("program to module"):
        module = parse_program(program, ("x", "image"), (fetch,))
    ops = sum(1 for _ in module.walk())
    with clock.stage("verify (xDSL)"):
        module.verify()
    with clock.stage("verify_ssa"):
        verify_ssa(module)
    with clock.stage("print"):
        text = text_of(module)
    with clock.stage("parse text"):
        again = parse_text(text)
    assert text_of(again) == text
    with clock.stage("dot"):
        to_dot(module)
    with clock.stage("clean-ups only"):
        optimize(again, strategy().pass_context(), verify_each=False)
    with clock.stage("pipeline, all fusions"):
        report = optimize(module, strategy(*FLAGS).pass_context(), verify_each=False)
    return ops, report


def saved(program: static.Program, fetch: str) -> bytes:
    """Serialize the program as its `.pdmodel` file."""
    block = program.global_block()
    feeds = [block.var(name) for name in ("x", "image")]
    return static.serialize_program(feeds, [block.var(fetch)], program=program)


def measure(size: int, *, training: bool, runs: int) -> tuple[int, Costs, Report]:
    """Measure a program: its ops, median microseconds per op by stage, and the last report."""
    start = time.process_time()
    program, fetch = built(size, training=training)
    build = time.process_time() - start
    data = b"" if training else saved(program, fetch)

    def load() -> static.Program:
        return program if training else read_program(data, "benchmark")

    samples: dict[str, list[float]] = {}
    ops, report = 0, None
    for _ in range(runs):
        clock = Clock()
        ops, report = stages(load, fetch, clock)
        for name, seconds in clock.seconds.items():
            samples.setdefault(name, []).append(seconds)
    assert report is not None
    costs = {"front end": 1e6 * build / ops}
    costs |= {name: 1e6 * statistics.median(found) / ops for name, found in samples.items()}
    if training:
        del costs["read the program"]
    return ops, costs, report


def table(rows: list[tuple[int, Costs]]) -> str:
    """Tabulate microseconds per op; the last column divides the largest program by the smallest."""
    names = list(rows[0][1])
    lines = ["| stage | " + " | ".join(f"{ops:,} ops" for ops, _ in rows) + " | growth |"]
    lines.append("|---|" + "---|" * (len(rows) + 1))
    for name in names:
        found = [costs[name] for _, costs in rows]
        cells = [f"{value:.1f}" for value in found]
        lines.append(f"| {name} | {' | '.join(cells)} | {found[-1] / found[0]:.2f} |")
    return "\n".join(lines)


def slowest(report: Report, ops: int) -> str:
    """List the passes by time, in microseconds per op; fusions share one sweep and its time."""
    spent: dict[str, float] = {}
    for ran in report.ran:
        update = ran.pass_name in ("fuse-adamw", "fuse-all-optimizer-ops")
        is_fusion = ran.pass_name.startswith("fuse") and not update
        name = "sweep of the fusions" if is_fusion else ""
        spent.setdefault(name or ran.pass_name, 1e6 * ran.seconds / ops)
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {cost:.1f}" for name, cost in ordered if cost >= 0.1)


def main() -> None:
    """Measure both programs at every size."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    found: dict[str, Any] = {}
    for title, training in (("training program", True), ("read from .pdmodel", False)):
        rows: list[tuple[int, Costs]] = []
        notes: list[str] = []
        for size in given.sizes:
            runs = max(1, min(MOST_RUNS, 30_000 // size))
            ops, costs, report = measure(size, training=training, runs=runs)
            rows.append((ops, costs))
            counts = f"{report.ops_before:,} ops to {report.ops_after:,}"
            notes.append(f"{counts}; passes, µs per op: {slowest(report, ops)}")
            print(f"{title}, {ops:,} ops measured", file=sys.stderr, flush=True)
        print(f"\n### {title}: µs of CPU time per op\n\n{table(rows)}\n")
        print("\n".join(f"- {note}" for note in notes), flush=True)
        found[title] = [{"ops": ops, "us_per_op": costs} for ops, costs in rows]
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
