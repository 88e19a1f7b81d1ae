"""The runner of Paddle's own tests: outcomes, causes and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphopt_tests.paddle_tests.run import Outcome, counted, outcomes, page, real_passes, run_file

GOOD = """
import unittest
import numpy as np
from op_test import OpTest

class TestSquare(OpTest):
    def setUp(self):
        self.op_type = "square"
        self.inputs = {"X": np.array([[1.0, -2.0]], "float32")}
        self.outputs = {"Out": np.array([[1.0, 4.0]], "float32")}

    def test_check_output(self):
        self.check_output()

    def test_check_grad(self):
        self.check_grad(["X"], "Out")

class TestWrong(TestSquare):
    def setUp(self):
        super(TestWrong, self).setUp()
        self.outputs = {"Out": np.array([[1.0, 5.0]], "float32")}
"""


@pytest.mark.parametrize(
    ("outcome", "error", "cause"),
    [
        ("time", "", "time"),
        ("import", "AttributeError: module 'graphopt' has no attribute 'compat'", "name"),
        ("import", "ZeroDivisionError: division by zero", "import"),
        ("fail", "AssertionError: TypeError not raised", "no error"),
        ("fail", "AssertionError: ", "numbers"),
        ("error", "graphopt.errors.UnsupportedError: conv3d with groups", "operator"),
        ("error", "graphopt.errors.ProgramError: shapes differ", "program"),
        ("error", "KeyError: 'x'", "other"),
    ],
)
def test_causes(outcome: str, error: str, cause: str) -> None:
    """The last line of an error gives the cause of a case that does not pass."""
    assert Outcome("test_a.py", "a", outcome, error).cause == cause


def test_a_process_that_ends_early_keeps_the_cases_before() -> None:
    """The case under way, and the cases not reached, get the outcome of the process."""
    rows = [("a.One", "started"), ("a.One", "pass"), ("a.Two", "started")]
    lines = [json.dumps({"case": case, "outcome": what, "error": ""}) for case, what in rows]
    found = counted(outcomes("a.py", lines, "time"), {"a.py": {"a.One", "a.Two", "a.Three"}})
    assert [(o.case, o.outcome) for o in found] == [
        ("a.One", "pass"),
        ("a.Three", "time"),
        ("a.Two", "time"),
    ]
    assert "1 of 3 cases pass (33.3%), in 1 of 9 files" in page(found, 60, 9)
    assert "| took longer than the limit | 2 |" in page(found, 60, 9)


def test_the_list_of_cases() -> None:
    """Cases are listed by file and name."""
    assert "test_cumsum_op.TestSumOp1.test_check_output" in real_passes()["test_cumsum_op.py"]


@pytest.mark.slow
def test_a_file(tmp_path: Path) -> None:
    """A file runs in a new process: right and wrong outputs, and a gradient."""
    (tmp_path / "test_good.py").write_text(GOOD)
    found = {o.case: o.outcome for o in run_file(tmp_path / "test_good.py", 60, 8)}
    assert found == {
        "test_good.TestSquare.test_check_output": "pass",
        "test_good.TestSquare.test_check_grad": "pass",
        "test_good.TestWrong.test_check_output": "fail",
        "test_good.TestWrong.test_check_grad": "pass",
    }
