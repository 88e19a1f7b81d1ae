"""The growth of each stage's time before XLA with the size of a program, by its shape.

Programs of 1,000 to 64,000 ops of several shapes go through the front end, the parser, the
verifier, the printers, each pass, explain, and tracing and lowering by JAX. Where a stage takes
time proportional to the ops ** exponent, the table has the exponent: 1 is linear.

    python benchmarks/bench_growth.py [--sizes 1000 4000] [--shapes chain] [--lowered 16000]

Times are CPU time of this process, the least of several runs; the exponent is between the largest
size and one of a fourth of it or less. Prints a Markdown table, and with `--most 1.15` exits with 1
when an exponent is above. Stages of less than 20 ms at the largest size have none.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.dot import to_dot
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.ir.formats.protobuf.program_desc import read_program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import replica_function
from graphopt.passes.table.explain import EVERYTHING, as_json, as_text
from graphopt.passes.table.instrumentation import Instrumentation
from graphopt.passes.table.manager import optimize
from graphopt.runtime.compile.compilation import pass_context_for

SIZES = (1_000, 4_000, 16_000, 64_000)
LOWERED = 16_000
SHORTEST = 0.02  # seconds; shorter times are too noisy to show growth
FLAGS = (
    "fuse_relu_depthwise_conv",
    "fused_attention",
    "fused_feedforward",
    "fuse_dot_product_attention",
    "fuse_gemm_epilogue",
    "fuse_resunit",
    "fuse_bn_add_act_ops",
    "fuse_bn_act_ops",
    "fuse_elewise_add_act_ops",
    "fuse_all_optimizer_ops",
    "build_cinn_pass",
    "enable_auto_fusion",
    "memory_optimize",
    "fix_op_run_order",
)
Variables = list[Any]

# -- programs: each function appends ops and returns the fetches -----------------------------------


def chain(x: Any, ops: int) -> Variables:
    """Build a chain of equal ops, without parameters."""
    for _ in range(ops):
        x = x + 1.5
    return [x]


def mixed_chain(x: Any, ops: int) -> Variables:
    """Build a chain of four kinds of ops; the op after next reads each result again."""
    before = x
    for number in range(ops):
        made = (
            paddle.tanh(x)
            if number % 4 == 0
            else (paddle.add, paddle.multiply, paddle.maximum)[number % 4 - 1](x, before)
        )
        x, before = made, x
    return [x]


def fan_out(x: Any, ops: int) -> Variables:
    """Build a value with users in half of the ops, and a sum of their results."""
    parts = [paddle.scale(paddle.tanh(x), float(number)) for number in range(ops // 2)]
    return [paddle.add_n(parts)]


def fetches(x: Any, ops: int) -> Variables:
    """Build a chain in which every fourth value is fetched."""
    kept: Variables = []
    for number in range(ops):
        x = paddle.tanh(x)
        kept += [x] if number % 4 == 0 else []
    return kept


def parameters(x: Any, ops: int) -> Variables:
    """Build layers of different widths, with their derivative and an update of each parameter."""
    total = paddle.mean(x)
    for number in range(ops // 9):
        made = static.nn.fc(x, 3 + number % 5)
        total = paddle.add(total, paddle.mean(paddle.tanh(made)))
    paddle.optimizer.AdamW(0.001).minimize(total)
    return [total]


def layers(x: Any, ops: int) -> Variables:
    """Repeat the same layer, and append its derivative and updates."""
    for _ in range(ops // 12):
        x = paddle.add(x, paddle.tanh(static.nn.fc(static.nn.layer_norm(x), 8)))
    total = paddle.mean(x)
    paddle.optimizer.SGD(0.001).minimize(total)
    return [total]


def large_layers(x: Any, ops: int) -> Variables:
    """Build fourteen layers, each as long as the program allows, with two values between layers."""
    other = x
    for _ in range(14):
        x = static.nn.fc(x, 8)
        for number in range(ops // 14 - 2):
            x, other = paddle.add(x, other) if number % 3 else paddle.tanh(x), x
    return [x]


def branches(x: Any, ops: int) -> Variables:
    """Build conditionals nested five deep, one after the other."""
    flag = paddle.mean(x) > 0.5

    def nested(value: Any, depth: int) -> Any:
        if depth == 0:
            return paddle.tanh(value)
        inner = lambda: nested(value, depth - 1)  # noqa: E731
        return static.nn.cond(flag, inner, lambda: paddle.scale(value, 2.0))

    for _ in range(max(1, ops // 21)):
        x = nested(x, 5)
    return [x]


SHAPES: dict[str, Callable[[Any, int], Variables]] = {
    "chain": chain,
    "mixed_chain": mixed_chain,
    "fan_out": fan_out,
    "fetches": fetches,
    "parameters": parameters,
    "layers": layers,
    "large_layers": large_layers,
    "branches": branches,
}


def built(shape: str, ops: int) -> tuple[static.Program, tuple[str, ...]]:
    """Build a program of about `ops` ops in IR; return it and the names of its fetches."""
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        found = SHAPES[shape](static.data("x", [4, 8]), ops)
    return main, tuple(variable.name for variable in found)


# -- measuring -------------------------------------------------------------------------------------


class Clock(Instrumentation):
    """CPU seconds of the stages of one run, and of its passes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the block."""
        gc.collect()
        gc.disable()
        start = time.process_time()
        yield
        self.seconds[name] = time.process_time() - start
        gc.enable()

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        """Record the start of a step of passes."""
        self._start = time.process_time()

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        """Add the time of a step of passes that ends."""
        name = names[0] if len(names) == 1 else "sweep of the fusions"
        spent = time.process_time() - self._start
        self.seconds[f"pass {name}"] = self.seconds.get(f"pass {name}", 0.0) + spent


def stages(shape: str, size: int, *, lowered: bool) -> tuple[int, dict[str, float]]:
    """Run each stage once; return the ops of the program, and the seconds by stage."""
    clock = Clock()
    with clock.stage("front end"):
        program, fetched = built(shape, size)
    with clock.stage("write .pdmodel"):
        data = program.desc.serialize_to_string()
    if shape != "parameters" and shape != "layers":
        with clock.stage("read .pdmodel"):
            read_program(data, "benchmark")
    with clock.stage("program to module"):
        module = parse_program(program, ("x",), fetched)
    ops = sum(1 for _ in module.walk())
    with clock.stage("verify (xDSL)"):
        module.verify()
    with clock.stage("verify_ssa"):
        verify_ssa(module)
    with clock.stage("print"):
        text = text_of(module)
    with clock.stage("parse text"):
        again = parse_text(text)
    with clock.stage("dot"):
        to_dot(module)
    strategy = static.BuildStrategy()
    for flag in FLAGS:
        setattr(strategy, flag, True)
    context = pass_context_for(strategy, "cpu")
    optimize(again, context, verify_each=False, watch=clock)
    with clock.stage("explain"):
        report = optimize(module, context, near=True, verify_each=False)
        as_text(report, EVERYTHING)
        as_text(report)
        as_json(report)
    if lowered:
        plain = parse_program(program, ("x",), fetched)
        optimize(plain, pass_context_for(None, "cpu"), verify_each=False)
        with clock.stage("trace"):
            traced = _traced(plain)
        with clock.stage("lower to StableHLO"):
            traced.lower()
    return ops, clock.seconds


def _traced(module: ModuleOp) -> Any:
    """Trace the step of a module by JAX."""
    plan = Plan.of(module)

    def types(ports: Any) -> Any:
        return tuple(jax.ShapeDtypeStruct(port.shape, port.dtype.numpy) for port in ports)

    with jax.enable_x64(True):
        function = jax.jit(replica_function(module, plan, ALONE))
        state = types(plan.updated), types((*plan.read_only, *plan.prepared))
        return function.trace(*state, types(plan.feeds), jax.ShapeDtypeStruct((2,), np.uint32))


def measure(shape: str, size: int, runs: int, *, lowered: bool) -> tuple[int, dict[str, float]]:
    """Measure the ops of a program, and the least seconds of each stage in several runs."""
    ops, least = stages(shape, size, lowered=lowered)
    for _ in range(runs - 1):
        for name, seconds in stages(shape, size, lowered=lowered)[1].items():
            least[name] = min(least[name], seconds)
    return ops, least


def exponent(found: Sequence[tuple[int, float]]) -> float | None:
    """Estimate the exponent with which a time grows at the largest sizes; None for short times."""
    if len(found) < 2 or found[-1][1] < SHORTEST:
        return None
    (few, short), (many, long) = found[-2], found[-1]
    return math.log(long / max(short, 1e-6)) / math.log(many / few)


def table(rows: Sequence[tuple[int, dict[str, float]]]) -> tuple[str, dict[str, float]]:
    """Tabulate milliseconds by stage and size with the exponents; return Markdown and exponents."""
    lines = ["| stage | " + " | ".join(f"{ops:,} ops" for ops, _ in rows) + " | exponent |"]
    lines.append("|---|" + "---|" * (len(rows) + 1))
    powers: dict[str, float] = {}
    for name in rows[0][1]:
        found = [(ops, seconds[name]) for ops, seconds in rows if name in seconds]
        power = exponent(found)
        if power is not None:
            powers[name] = power
        cells = [f"{seconds[name] * 1e3:.1f}" if name in seconds else "-" for _, seconds in rows]
        told = "-" if power is None else f"{power:.2f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {told} |")
    return "\n".join(lines), powers


def main() -> int:
    """Measure all shapes; return 1 when a stage grows faster than allowed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES))
    options.add_argument("--lowered", type=int, default=LOWERED, help="the largest that is lowered")
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--most", type=float, help="the largest exponent that is right")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    found: dict[str, Any] = {}
    above: list[str] = []
    for shape in given.shapes:
        rows: list[tuple[int, dict[str, float]]] = []
        for size in given.sizes:
            rows.append(measure(shape, size, given.runs, lowered=size <= given.lowered))
            print(f"{shape}, {size:,} ops measured", file=sys.stderr, flush=True)
        text, powers = table(rows)
        print(f"\n### {shape}: {(SHAPES[shape].__doc__ or '').strip()}\n\n{text}", flush=True)
        found[shape] = [{"ops": ops, "seconds": seconds} for ops, seconds in rows]
        above += [f"{shape}, {name}: {power:.2f}" for name, power in powers.items()
                  if given.most is not None and power > given.most]  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    print("".join(f"above: {line}\n" for line in above), end="")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
