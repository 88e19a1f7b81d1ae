"""The benchmark of single operators: its rounds, and its report."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class Recorded:
    """An engine that returns these numbers, one after another."""

    def __init__(self, *answers: float | str) -> None:
        self.answers = list(answers)

    def seconds(self, name: str, with_derivatives: bool, least: float) -> float | str:
        return self.answers.pop(0)


def test_ratios_are_those_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round compiles; an operator without a time is named below the table."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark: Any = importlib.import_module("bench_operators")
    ours, theirs = Recorded(9.0, 0.001, 0.004, 0.001), Recorded(9.0, 0.002, 0.002, 0.002)
    row = benchmark.measure((ours, theirs), "sort", True, 3)
    assert row == ("sort, derivatives", 1.0, 2.0, 0.5)
    missing = benchmark.measure((Recorded("ValueError: no"), Recorded(1.0)), "sort", False, 3)
    lines = benchmark.report([benchmark.Row("relu", 1.0, 0.5, 2.0), row], [missing])
    assert lines[2:4] == [
        "| relu | 1.00 | 0.50 | 2.00 |",
        "| sort, derivatives | 1.00 | 2.00 | 0.50 |",
    ]
    assert lines[5:] == [
        "2 programs, geometric mean 1.00, 1 above 1.",
        "- sort: graphopt: ValueError: no",
    ]
