"""The collectives in reports equal those in the StableHLO for XLA, byte by byte."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable
from graphopt.passes.engine.communication import Ring, communication
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.testing import parse
from graphopt_tests.runtime.nets import Net, build, strategy

ReduceStrategy = static.BuildStrategy.ReduceStrategy
FEED = {"x": np.arange(48, dtype="float32").reshape(4, 3, 2, 2) / 48}


@pytest.fixture(autouse=True)
def _two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")


def net(*, norm: bool = False) -> Net:
    """Build a convolution and a linear layer, with an optional norm between them."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 3, 2, 2], "float32")
        h = paddle.nn.Conv2D(3, 4, 1)(x)
        h = paddle.nn.BatchNorm2D(4)(h) if norm else h
        out = paddle.nn.Linear(16, 5)(paddle.flatten(h, 1))
        loss = paddle.mean(paddle.square(out))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, out

    return build(make)


def sent_to_xla(text: str) -> dict[str, tuple[int, int]]:
    """Count each kind of collective in StableHLO, and sum the bytes of its whole values."""
    found: Counter[str] = Counter()
    payload: Counter[str] = Counter()
    pattern = r'"stablehlo\.(all_reduce|all_gather|reduce_scatter)"'
    types = r"\(tensor<([\dx]*)f32>\) -> tensor<([\dx]*)f32>"
    for kind, rest in zip(*[iter(re.split(pattern, text)[1:])] * 2, strict=True):
        sizes = re.search(types, rest)
        assert sizes is not None
        counts = [math.prod(map(int, filter(None, each.split("x")))) for each in sizes.groups()]
        found[kind] += 1
        payload[kind] += 4 * max(counts)
    return {kind: (found[kind], payload[kind]) for kind in found}


def explained(program: CompiledProgram) -> list[dict[str, Any]]:
    """Return the collectives after the last pass, from the JSON of the only report."""
    (explanation,) = program.explanations()
    assert "collectives of a step on 2 devices" in explanation.text()
    rows = explanation.to_json()["collectives"]
    return [row for row in rows if row["after"] == rows[-1]["after"]]


def test_what_devices_require_is_no_optimization() -> None:
    """Collectives have their own table, and the first line counts them separately."""
    made = net()
    program = CompiledProgram(made.main).with_data_parallel(
        made.loss.name, strategy(fuse_gemm_epilogue=True)
    )
    found = paddle.explain(program, fetch_list=[made.loss])
    report = found.report
    sums = report.after["pd.all_reduce"]
    assert sums > 0 and report.required >= sums
    head, text = found.text().splitlines()[0], found.text()
    ops = f"{report.ops_before} ops before, {report.ops_after - report.required} after, and "
    assert head.startswith(f"{ops}{report.required} that 2 devices require, for ")
    ours, theirs = text.split("\nnot optimizations: what 2 devices require\n")
    assert "\nfuse_gemm_epilogue " in ours and "all-reduce-gradients" not in ours
    assert "reduce_strategy (all-reduce-gradients)" in theirs
    assert f" {report.ops_before} -> {report.ops_after - report.required} " in ours
    rows = {row["pass"]: row["required"] for row in found.to_json()["passes"]}
    assert rows["all-reduce-gradients"] and not rows["fuse-gemm-epilogue"]


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "flags",
    [
        {"fuse_all_reduce_ops": True},
        {"fuse_all_reduce_ops": False},
        {"reduce_strategy": ReduceStrategy.Reduce, "fuse_broadcast_ops": True},
    ],
)
def test_the_counts_are_those_of_xla(flags: dict[str, Any]) -> None:
    """After the last pass the counts agree, up to padding of less than one element a device."""
    made = net()
    program = CompiledProgram(made.main).with_data_parallel(made.loss.name, strategy(**flags))
    made.run(FEED, made.loss, program)
    rows = {row["op"].removeprefix("pd."): row for row in explained(program)}
    found = sent_to_xla(program.text("stablehlo"))
    assert {kind: count for kind, (count, _) in found.items()} == {
        kind: row["count"] for kind, row in rows.items()
    }
    for kind, row in rows.items():
        assert 0 <= found[kind][1] - row["payload"] <= 8 * 4 * row["count"]


@pytest.mark.exhaustive
def test_a_synchronised_norm_counts_with_its_derivative() -> None:
    """The counts equal those of XLA's text, in which the derivative's repeated sums are gone."""
    made = net(norm=True)
    flags = strategy(sync_batch_norm=True)
    program = CompiledProgram(made.main).with_data_parallel(made.loss.name, flags)
    made.run(FEED, made.loss, program)
    rows = explained(program)
    types = re.findall(r"= (\S+|\([^)]*\)) all-reduce\(", program.text("hlo"))
    arrays = [array for each in types for array in re.findall(r"f32\[([\d,]*)\]", each)]
    assert sum(row["count"] for row in rows) == len(arrays)
    sizes = [4 * math.prod(map(int, filter(None, array.split(",")))) for array in arrays]
    assert sum(row["payload"] for row in rows) == sum(sizes)


def test_a_device_sends_around_the_ring() -> None:
    """Sent bytes follow the formulas for one and two processes; one device sends none."""
    module = parse(
        'func.func @main(%g: tensor<16xf32> {pd.kind = "feed", pd.name = "g"}) { '
        "%t = pd.all_reduce(%g) %p = pd.reduce_scatter(%g) {parts = 4} func.return }"
    )
    sent = {ring: [c.sent for c in communication(module, ring)] for ring in RINGS}
    assert sent == {Ring(1): [0, 0], Ring(4): [96, 48], Ring(4, 2): [112, 48 + 16]}


RINGS = (Ring(1), Ring(4), Ring(4, 2))


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["enable_sequential_execution", "sequential_run"])
def test_collectives_wait_for_each_other(name: str) -> None:
    """XLA's code keeps all collectives, each dependent on the one before.

    The first collectives are of the last layer, whose gradients are ready first.
    """
    made = net()
    flags = strategy(fuse_all_reduce_ops=False, **{name: True})
    program = CompiledProgram(made.main).with_data_parallel(made.loss.name, flags)
    made.run(FEED, made.loss, program)
    (row,) = (row for row in explained(program) if row["op"] == "pd.all_reduce")
    waits = needed(program.text("hlo"))
    sums = [op for op in waits if op.startswith("all-reduce")]
    assert len(sums) == row["count"] > 2
    for before, op in pairwise(sums):
        assert before in waits[op]
    sizes = re.findall(r"= f32\[([\d,]*)\]\S* all-reduce\(", program.text("hlo"))
    assert sizes == ["5", "16,5", "4", "1,1,3,4"]


def needed(text: str) -> dict[str, set[str]]:
    """Map each instruction of compiled HLO's entry to its direct and indirect operands.

    An all-reduce is named so, with a number.
    """
    found: dict[str, set[str]] = {}
    names: dict[str, str] = {}
    for line in text[text.index("\nENTRY") :].splitlines():
        made = re.match(r"\s+(?:ROOT )?%([\w.-]+) = .*? ([a-z][\w-]*)\((.*)", line)
        if made is None:
            continue
        names[made[1]] = f"{made[2]} {len(names)}"
        read = [names[name] for name in re.findall(r"%([\w.-]+)", made[3]) if name in names]
        found[names[made[1]]] = set(read).union(*(found[each] for each in read))
    return found
