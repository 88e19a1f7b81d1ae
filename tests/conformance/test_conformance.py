"""Recorded cases give Paddle's numbers: every seventh name, and in `make test-all` every name.

Each name runs one case; `make conformance` runs all of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt.conformance.__main__ import main
from graphopt.conformance.cases import Corpus, name_of
from graphopt.conformance.check import CaseOutcome, check
from graphopt.conformance.compare import differs, violates
from graphopt.conformance.table import coverage, failures, percent, read_reasons, share

HERE = Path(__file__).parent
CORPUS = Corpus(HERE / "cases")
REASONS = read_reasons(HERE / "reasons.tsv")

_BY_NAME: dict[str, list[Any]] = defaultdict(list)
for _case in CORPUS.cases:
    _BY_NAME[_case["name"]].append(_case)


@pytest.mark.every(7)
@pytest.mark.parametrize("name", _BY_NAME)
def test_recorded_numbers(name: str) -> None:
    """Results, gradients and state agree, except where `reasons.tsv` gives a reason.

    The last case of each name runs: later cases tend to be the special ones.
    """
    case = _BY_NAME[name][-1]
    complaints = check(CORPUS, case).complaints
    if any(pattern.fullmatch(case["id"]) for pattern, _ in REASONS):
        assert complaints, f"{case['id']} passes: take its reason out of reasons.tsv"
    else:
        assert not complaints, case["id"]


# What must be known when a program is built: the sizes of parameters, how many results there are,
# whether an axis is 1, the length of a shape.
NEEDS_FIRST_SIZE = re.compile(
    r"paddle\.(nn\.functional\.(prelu|embedding)|ones|zeros|broadcast_to|expand|squeeze|unbind"
    r"|unstack|quantile)/.*|Tensor\.unbind/.*"
)


def _with_open_batch(case: Any) -> Any:
    """Declare the first size of each fed variable of a case as None."""
    inputs: dict[str, Any] = {}
    for name, item in case["inputs"].items():
        shape = item["a"][2]
        inputs[name] = {**item, "shape": [None, *shape[1:]] if shape else []}
    return {**case, "inputs": inputs}


OPEN = {
    case["name"]: case
    for case in CORPUS.cases
    if case["kind"] == "op"
    and case["oracle"] != "1.8.5"
    and not NEEDS_FIRST_SIZE.fullmatch(case["id"])
    and case.get("inputs")
    and not any("shape" in item for item in case["inputs"].values())
}


@pytest.mark.every(6)
@pytest.mark.parametrize("name", OPEN)
def test_open_batch(name: str) -> None:
    """The numbers do not change when type rules and lowerings do not know the first size."""
    assert not check(CORPUS, _with_open_batch(OPEN[name])).complaints


OUTCOMES = [
    CaseOutcome("paddle.a/00", "paddle.a", "math", ()),
    CaseOutcome("paddle.a/01", "paddle.a", "math", ("result is | other",)),
    CaseOutcome("paddle.b/00", "paddle.b", "nn", ()),
]
TIERS = {"paddle.a": "A", "paddle.b": "B"}


def test_tables() -> None:
    table = coverage(OUTCOMES, TIERS)
    assert "| math | 1 of 2 |  | 1 of 2 |" in table
    assert "| share | 50.0 % | 100.0 % | 66.6 % |" in table
    page = failures(OUTCOMES, TIERS, [])
    assert "| paddle.a/01 | A | result is \\| other |  |" in page
    assert failures(OUTCOMES[:1], TIERS, []) == "None."
    assert (share(OUTCOMES, TIERS, "A"), share(OUTCOMES, TIERS, "C")) == (50.0, 100.0)
    assert percent(999, 1000) == "99.9 %"


def test_differences_are_found() -> None:
    """Shapes, dtypes and numbers are compared, and float64 more closely than float32."""
    one = np.float32(1)
    assert not differs("x", one, one + np.float32(5e-6), (1e-5, 0.0))
    assert differs("x", np.float64(1), np.float64(1 + 5e-6), (1e-5, 0.0))
    assert "recorded is float64" in differs("x", np.float64(1), one, (1.0, 1.0))[0]
    assert "shape" in differs("x", np.ones(2), np.ones(3), (1.0, 1.0))[0]
    assert "other values" in differs("x", np.array([1]), np.array([2]), (1.0, 1.0))[0]
    assert violates({"mean": 0.5, "min": 0.0}, {"mean": [0.4, 0.05], "min": 0.0}) == [
        "mean is 0.5, recorded is [0.4, 0.05]"
    ]


def test_a_wrong_record_is_noticed() -> None:
    """The harness can fail: it reports a case whose recorded numbers were changed."""
    case = next(c for c in CORPUS.cases if c["id"].startswith("paddle.abs/") and "grads" in c)
    changed = {**case, "out": [{**case["out"][0], "a": case["cot"][0]}]}
    assert check(CORPUS, case).complaints == ()
    assert "differs by up to" in check(CORPUS, changed).complaints[0]
    missing = check(CORPUS, {**case, "op": "paddle.no_such_name"})
    assert missing.complaints[0].startswith("raised AttributeError")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(HERE / "cases"), "--tiers", str(HERE / "tiers.tsv"), "-j", "1"]
    page = tmp_path / "page.md"
    chosen = ["--only", "^paddle.square/", "--report", str(page)]
    assert main([*arguments, *chosen, "--require", "A=100"]) == 0
    assert "| share | 100.0 % | 100.0 % |" in capsys.readouterr().out
    assert page.read_text().startswith("# Conformance")
    assert main([*arguments, "--only", "no such case"]) == 2
    assert "no case" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2
    (tmp_path / "cases.jsonl").write_text("{}\nnonsense\n")
    assert main([str(tmp_path)]) == 2
    assert "cases.jsonl, line 1: not a case" in capsys.readouterr().err


def test_names_of_cases() -> None:
    assert name_of({"id": "a/00", "layer": {"call": "paddle.nn.Linear"}}) == "paddle.nn.Linear"
    assert name_of({"id": "program.x/00"}) == "program.x"
