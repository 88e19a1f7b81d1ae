"""The growth of the passes' work with a program, in calls of functions, independent of load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.context import parse_text
from graphopt.passes.cleanup.cse import ShareCommon
from graphopt.passes.storage.roll_layers import RollLayers
from graphopt_tests.passes.test_repetitions import X, module

ROW = ["w"] * 36 + ["relu"] * 4
Steps = Callable[[int], Sequence[str]]


def calls(function: Callable[[], Any]) -> int:
    """Count the calls of Python and C functions while a function runs."""
    count = 0

    def one(*_: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(one)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def part_of(ops: int, layer: Sequence[str]) -> list[str]:
    return (list(layer) * ops)[:ops]


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("steps", "distance"),
    [
        (lambda ops: ["tanh"] * ops, 0),
        (lambda ops: ["past"] * ops, 0),
        (lambda ops: part_of(ops, ["w", "tanh", "past"]), 0),
        (lambda ops: part_of(ops, ["w", "tanh", "past"]), 39),
        (lambda ops: part_of(ops, ["w", *["past"] * (ops // 14 - 1)]), 0),
        (lambda ops: part_of(ops, ROW), 0),
    ],
    ids=["chain", "two values", "layers", "fetches", "long layers", "many rows"],
)
def test_roll_layers(steps: Steps, distance: int) -> None:
    """Four times the ops take at most five times the calls."""

    def work(ops: int) -> int:
        made = module(steps(ops), range(0, ops, distance) if distance else ())
        return calls(lambda: RollLayers().rewrite(made))

    assert work(800) <= 5 * work(200)


def branches(count: int) -> ModuleOp:
    """Build a chain of branches on one flag, each with an op inside."""
    lines, value = list[str](), "x"
    for number in range(count):
        inside = [f"%{s}{number} = pd.{s}(%{value}) : {X}" for s in ("tanh", "relu")]
        ends = [f"pd.yield(values = [%{s}{number}])" for s in ("tanh", "relu")]
        lines.append(
            f"%h{number} = pd.if(%flag) -> {X} {{\n{inside[0]}\n{ends[0]}\n}} else {{\n"
            f"{inside[1]}\n{ends[1]}\n}}"
        )
        value = f"h{number}"
    body = "\n".join([*lines, f"func.return %{value} : {X}"])
    head = f'%x: {X} {{pd.feed = "x"}}, %flag: tensor<i1> {{pd.feed = "flag"}}'
    return parse_text(
        f'builtin.module {{\nfunc.func @main({head}) -> ({X} {{pd.fetch = "y"}}) {{\n{body}\n}}\n}}'
    )


@pytest.mark.exhaustive
def test_cse_of_branches() -> None:
    """Ops with regions are not compared with all earlier ops."""

    def work(count: int) -> int:
        made = branches(count)
        return calls(lambda: ShareCommon().apply(Context(), made))

    assert work(160) <= 5 * work(40)
