"""Functions, layers, optimizers and schedules against numbers that Paddle gave."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from graphopt_tests.frontend.golden import complaints, load_cases

CASES = {
    op: list(cases)
    for op, cases in groupby(sorted(load_cases(), key=lambda c: c["op"]), key=lambda c: c["op"])
}


@pytest.mark.parametrize("op", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_recorded_numbers(op: str) -> None:
    """Every recorded case of a name gives Paddle's numbers, gradients included."""
    found: dict[str, Any] = {case["id"]: complaints(case) for case in CASES[op]}
    wrong = {name: why for name, why in found.items() if why}
    assert not wrong
