"""`--validate`: wrong rewrites are caught, undone and named; right ones pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from graphopt.cli.opt import main
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Abs, Scale
from graphopt.passes.engine.fusion import Applied, Declined, Fusion, Match, Node, Value, sweep
from graphopt.passes.engine.validation import (
    FAILED,
    FAILED_VALIDATION,
    NOT_VALIDATED,
    VALIDATED,
    Validation,
    Verdict,
    validating,
)
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import PassRun, optimize
from graphopt.passes.table.registry import all_passes
from graphopt.reference.programs import validate
from graphopt.testing import load_page, parse, result_text
from graphopt_tests.passes.right_and_wrong import CASES as RIGHT_AND_WRONG
from graphopt_tests.passes.wrong_rewrites import (
    CASES,
    FUSED_CASES,
    RIGHT_KEY,
    SILENT_CASES,
    AnyKeys,
    WrongFusions,
    program,
)

PAGES = Path(__file__).parents[1] / "passes"
MODELS = Path(__file__).parents[1] / "data" / "models"


def run(module: ModuleOp, made: Any) -> tuple[Validation, PassRun]:
    """Run one pass under validation, as graphopt-opt does."""
    with validating(validate) as validation:
        watched = PassRun(module, PassContext({}))
        watched.one("-p", made)
        watched.finish()
    return validation, watched


def check_undone(module: ModuleOp, made: Any) -> None:
    """Check that a pass's rewrites fail, are reported with their reason, and are undone."""
    text = str(module)
    validation, watched = run(module, made)
    assert validation.failed, "nothing was found to be wrong"
    assert {item.rule for item in validation.failed} == {made.name}
    assert str(module) == text
    module.verify()
    (outcome,) = [o for o in watched.report.outcomes if isinstance(o, Declined)]
    assert outcome.reason.name == FAILED_VALIDATION
    assert not any(isinstance(o, Applied) for o in watched.report.outcomes)


@pytest.mark.parametrize("name", CASES)
def test_wrong_rewrite_is_undone(name: str) -> None:
    """Known bugs of compilers are undone."""
    text, made = CASES[name]
    check_undone(parse(text), made)


@pytest.mark.parametrize("name", SILENT_CASES)
def test_the_whole_is_compared(name: str) -> None:
    """Changes that a pass does not report are found, too, and all of them are undone."""
    text, made = SILENT_CASES[name]
    module = parse(text)
    before = str(module)
    validation, watched = run(module, made)
    assert validation.failed, validation.checked
    assert str(module) == before
    module.verify()
    assert all(isinstance(outcome, Declined) for outcome in watched.report.outcomes)


def test_unvalidated_it_happens() -> None:
    """Without validation, the wrong rewrite stays."""
    text, made = CASES["x - x as zeros"]
    module = parse(text)
    (outcome,) = made.rewrite(module)
    assert isinstance(outcome, Applied)
    assert "pd.full" in str(module)


# Fusions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUSED_CASES)
def test_wrong_fusion_is_undone(name: str) -> None:
    """A wrong fusion is undone, too."""
    check_undone(parse(FUSED_CASES[name]), WrongFusions())


def test_right_key_is_validated() -> None:
    """A wrong rule is accepted where its rewrite is right."""
    validation, watched = run(parse(RIGHT_KEY), AnyKeys())
    assert [item.status for item in validation.checked] == [VALIDATED]
    assert any(isinstance(outcome, Applied) for outcome in watched.report.outcomes)


@pytest.mark.parametrize("name", RIGHT_AND_WRONG)
def test_what_is_right_stays(name: str) -> None:
    """Of two rewrites only the wrong one is undone, with the changes made after the right one."""
    text, made = RIGHT_AND_WRONG[name]
    module = parse(text)
    validation, watched = run(module, made)
    assert [item.status for item in validation.checked].count(VALIDATED) == 1
    assert len(validation.failed) == 1
    module.verify()
    ops = [op.name for op in module.walk()]
    assert ops.count("pd.add") == 1 + text.count("pd.add"), "the right one is there"
    assert "pd.scale" not in ops
    assert "pd.abs" not in ops
    assert len([o for o in watched.report.outcomes if isinstance(o, Applied)]) == 1


# What is right --------------------------------------------------------------------------------

# passes whose ops the interpreter has no rule for: collectives
WITHOUT_RULE = {"fuse-broadcast-ops", "shard-parameters", "shard-updates", "tensor-parallel"}
# its ops take shapes, and the numbers that are drawn for one may fit no tensor
READS_SIZES = "settle-shapes"
# passes that move ops or mark them, which changes no value
CHANGES_NOTHING = {"recompute-activations", "sort-ops"}


def page_cases() -> Iterator[Any]:
    """Yield the rewritten cases of each page; the shortest of a page is always run."""
    for page in sorted(PAGES.glob("*.md")):
        cases = [case for case in load_page(page) if case.expected_kind == "mlir"]
        shortest = min(cases, key=lambda case: len(case.before), default=None)
        for case in cases:
            marks = () if case is shortest else pytest.mark.exhaustive
            yield pytest.param(case, id=f"{page.stem}: {case.title}", marks=marks)


PAGE_CASES = list(page_cases())


@pytest.mark.every(6)
@pytest.mark.parametrize("case", PAGE_CASES)
def test_every_pass_validates_on_its_pages(case: Any) -> None:
    """The changes of each pass on its page are validated, reported or not."""
    module = parse(case.before)
    validation, _ = run(module, case.make_pass())
    assert not validation.failed, validation.failed
    assert result_text(parse(case.before), module) == case.expected
    wanted = {NOT_VALIDATED if case.pass_name in WITHOUT_RULE else VALIDATED}
    found = {item.status for item in validation.checked}
    if case.pass_name == READS_SIZES:
        wanted |= found & {NOT_VALIDATED}
    assert found == (set() if case.pass_name in CHANGES_NOTHING else wanted), validation.checked


# the validator is not asked about these: the last one changes what a program takes
NOT_ASKED = CHANGES_NOTHING | {"tensor-parallel"}
ASKED = [each for each in PAGE_CASES if each.values[0].pass_name not in NOT_ASKED]


@pytest.mark.every(6)
@pytest.mark.parametrize("case", ASKED)
def test_every_pass_can_be_undone_on_its_pages(case: Any) -> None:
    """A validator that rejects every change leaves the program unchanged."""
    module = parse(case.before)
    with validating(lambda change: Verdict(FAILED, "as all is")) as validation:
        watched = PassRun(module, PassContext({}))
        watched.one("-p", case.make_pass())
        watched.finish()
    module.verify()
    assert validation.failed
    assert str(module) == str(parse(case.before))


def test_without_a_rule_nothing_is_validated() -> None:
    """An op that the interpreter lacks is named, and the rewrite is not validated."""
    assert "pd.print" in BY_NAME
    text = program(
        '%x: tensor<3x3xf32> {pd.feed = "x"}',
        "tensor<3x3xf32>",
        "%i = pd.matrix_exp(%x) : tensor<3x3xf32>",
        "%out = pd.scale(%i) {scale = 0.5} : tensor<3x3xf32>",
    )

    class Halves(Fusion):
        x = Value()
        power = Node(BY_NAME["pd.matrix_exp"], x)
        root = Node(Scale, power)

        def build(self, match: Match) -> PdOp:
            return Abs.make(match.value(self.x))

    module = parse(text)
    with validating(validate) as validation:
        sweep(module, [("halves", Halves())])
    (item,) = validation.checked
    assert item.status == NOT_VALIDATED
    assert "pd.matrix_exp" in item.text
    assert "pd.abs" in str(module)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model's rewrites are validated, with their counts; none fails."""
    model = str(MODELS / "infer_lenet" / "model.pdmodel")
    assert (
        main([model, "--build-strategy", "fuse_gemm_epilogue", "--platform", "none", "--validate"])
        == 0
    )
    assert "4 rewrites validated, 0 failed and undone, 0 not" in capsys.readouterr().err


def test_command_line_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a wrong pass the program is printed without its rewrites, and the status is 1."""
    monkeypatch.setitem(all_passes.__globals__["_registered"], "wrong-fusions", WrongFusions)
    file = tmp_path / "program.mlir"
    file.write_text(FUSED_CASES["alpha is lost on the bias"])
    explain = ["--explain", "--explain-format", "json"]
    assert main([str(file), "-p", "wrong-fusions", "--validate", *explain]) == 1
    out, err = capsys.readouterr()
    assert "pd.matmul" in out
    report, end = json.JSONDecoder().raw_decode(err)
    assert report["validation"]["counts"]["failed"] == 1
    assert report["anchors"][0]["reason"]["name"] == FAILED_VALIDATION
    assert "1 rewrite failed validation" in err[end:]


def test_optimize_validates() -> None:
    """The pass manager validates with the interpreter as its validator."""
    module = parse(PAGE_CASES[0].values[0].before)  # pyright: ignore
    report = optimize(module, PassContext({}), validate=validate)
    assert report.validation is not None
    assert not report.validation.failed
