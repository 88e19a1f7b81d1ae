"""A few tests of the package onnx, the verdicts, and the page of all tests.

`make onnx-nodes` runs all of them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("onnx")

from graphopt_tests.onnx_nodes.run import (
    KINDS,
    NOT_OF_INFERENCE,
    Case,
    Verdict,
    differ,
    is_random,
    judge,
    node_cases,
    shares,
    stored_cases,
    table,
)


def cases_of(module: str) -> Iterator[Case]:
    """Yield the tests of one module of the package; building all tests takes 15 seconds."""
    from onnx.backend.test.case import node

    before = len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    for case in node._NodeTestCases[before:]:
        model = case.model.SerializeToString()
        yield Case("node", case.name, model, case.data_sets, case.rtol, case.atol)


@pytest.mark.parametrize("module", ["shrink", "gemm", "mod", "quantizelinear"])
def test_nodes(module: str) -> None:
    for case in [*cases_of(module)][:2]:
        verdict = judge(case)
        assert verdict.outcome == "passed" or "no type for" in verdict.why, case.name


@pytest.mark.exhaustive
def test_every_node() -> None:
    """No test is wrong, and most tests of inference operators pass."""
    cases = [*node_cases()]
    for kind in KINDS[1:]:
        cases += stored_cases(kind)
    wrong = {c.name: v for c in cases if (v := judge(c)).outcome == "wrong"}
    assert not wrong


def a_case(name: str = "test_x") -> Case:
    return Case("node", name, b"", (), 1e-3, 1e-7)


def test_what_counts_as_equal() -> None:
    one = np.ones(2, np.float32)
    assert differ(a_case(), [one * 1.0005], [one]) == ""
    assert differ(a_case(), [one * 1.01], [one]) == "other numbers"
    assert differ(a_case(), [one.astype(np.float64)], [one]).startswith("float64 [2] where float32")
    assert differ(a_case(), [one[:1]], [one]) == "float32 [1] where float32 [2] is right"
    nan = np.array([np.nan, np.inf], np.float32)
    assert differ(a_case(), [nan], [nan.copy()]) == ""
    assert differ(a_case("test_bernoulli_seed"), [one * 0], [one]) == ""
    assert not is_random("test_training_dropout_zero_ratio")


def test_the_page_counts_by_operator() -> None:
    verdicts = {
        "test_a": Verdict("passed"),
        "test_b": Verdict("refused", "the input 'x' is uint16, which graphopt has no type for"),
        "test_c": Verdict("wrong", "other numbers"),
        "test_d": Verdict("refused", "operator type 'onnx.Adam' has no translation"),
    }
    operators = {"test_a": "Add", "test_b": "Add", "test_c": "Mul", "test_d": "Adam"}
    assert "Adam" in NOT_OF_INFERENCE
    assert table(verdicts, operators)[2:] == [
        "| Adam | 0 | 1 |  | no rule |",
        "| Add | 1 | 1 |  | no type uint16 |",
        "| Mul | 0 |  | 1 | other numbers |",
    ]
    counts = [sum(found.values()) for _, found in shares(verdicts, operators)]
    assert counts == [4, 3, 2]
