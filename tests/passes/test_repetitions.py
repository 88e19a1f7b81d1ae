"""Runs in sequences of numbers, against all periods at all places, and the resulting layers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.ops.control import Layers
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.storage.repetitions import Repetition, runs
from graphopt.passes.storage.roll_layers import RollLayers
from graphopt_tests.example_counts import examples

X, W = "tensor<4x8xf32>", "tensor<8x8xf32>"


def plain_runs(items: Sequence[int], fewest: int) -> set[Repetition]:
    """Find each stretch with a period, by definition."""
    found: dict[tuple[int, int], Repetition] = {}
    for period in range(1, len(items) // fewest + 1):
        at = 0
        while at + period < len(items):
            begin = at
            while at + period < len(items) and items[at] == items[at + period]:
                at += 1
            end = at + period
            if end - begin >= fewest * period:
                found.setdefault((begin, end), Repetition(begin, end, period))
            at += 1
    return set(found.values())


@pytest.mark.exhaustive
@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(1, 14)),
        max_size=6,
    ),
    st.booleans(),
    st.sampled_from((2, 3, 12)),
)
def test_runs(parts: list[tuple[list[int], int]], twice: bool, fewest: int) -> None:
    items = [item for part, times in parts for item in part * times] * (1 + twice)
    found = runs(items, fewest)
    assert set(found) == plain_runs(items, fewest)
    assert len(found) == len(set(found))


def module(steps: Sequence[str], fetched: Sequence[int] = ()) -> ModuleOp:
    """Build a chain of these steps: `w` multiplies by a parameter, `past` adds the value before."""
    lines: list[str] = []
    state: list[str] = []
    value, before, kept = "x", "x", list[str]()
    for number, step in enumerate(steps):
        made = f"h{number}"
        if step == "w":
            state.append(f'%w{number}: {W} {{pd.state = "w{number}"}}')
            lines.append(f"%{made} = pd.matmul(%{value}, %w{number}) : ({X}, {W}) -> {X}")
        elif step == "past":
            lines.append(f"%{made} = pd.add(%{value}, %{before}) : ({X}, {X}) -> {X}")
        else:
            lines.append(f"%{made} = pd.{step}(%{value}) : {X}")
        value, before = made, value
        kept += [made] if number in fetched else []
    kept.append(value)
    arguments = ", ".join([f'%x: {X} {{pd.feed = "x"}}', *state])
    gives = ", ".join(f'{X} {{pd.fetch = "{name}"}}' for name in kept)
    values, types = ", ".join(f"%{name}" for name in kept), ", ".join([X] * len(kept))
    body = "\n".join([*lines, f"func.return {values} : {types}"])
    return parse_text(
        f"builtin.module {{\nfunc.func @main({arguments}) -> ({gives}) {{\n{body}\n}}\n}}"
    )


def layers(changed: ModuleOp) -> list[tuple[int, int]]:
    """Roll the layers, and return the length of each row and its ops per layer."""
    RollLayers().rewrite(changed)
    changed.verify()
    return [
        (shape_of(op.stacks[0].type)[0], len(list(op.body.block.ops)) - 1)
        for op in changed.walk()
        if isinstance(op, Layers)
    ]


def test_rows_between_fetched_values_are_all_rolled() -> None:
    """A row may end with a value that is read elsewhere."""
    steps = ["w", "tanh", "tanh"] * 50
    assert layers(module(steps, fetched=[3 * 20 - 1, 3 * 36 - 1])) == [(20, 3), (16, 3), (14, 3)]
    assert layers(module(steps, fetched=[3 * 20 - 2])) == [(19, 3), (30, 3)]
    assert layers(module(steps, fetched=range(0, 150, 15))) == []


def test_long_layers_begin_where_one_value_goes_on() -> None:
    layer = ["w", "tanh", *["past", "past", "tanh"] * 12, "relu"]
    assert layers(module(layer * 12 + ["tanh"] * 40)) == [(12, len(layer))]
