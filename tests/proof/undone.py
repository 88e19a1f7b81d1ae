"""Rewrites under validation, as text: wrong ones are undone, and right ones stay."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.passes import ModulePass

from graphopt.passes.engine.fusion import Applied
from graphopt.passes.engine.validation import validating
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import PassRun
from graphopt.reference.programs import validate
from graphopt.testing import parse
from graphopt_tests.passes import right_and_wrong
from graphopt_tests.passes.wrong_rewrites import (
    FUSED_CASES,
    RIGHT_KEY,
    SILENT_CASES,
    AnyKeys,
    WrongFusions,
)
from graphopt_tests.proof.told import fusion_cases

PAST_THE_PATTERN = "Windows of queries that a reshape makes"
REWRITES: Mapping[str, tuple[str, ModulePass]] = {
    **{c.title: (c.before, c.make_pass()) for c in fusion_cases() if c.title == PAST_THE_PATTERN},
    **right_and_wrong.CASES,
    **SILENT_CASES,
    **{name: (text, WrongFusions()) for name, text in FUSED_CASES.items()},
    "the key is not permuted": (RIGHT_KEY, AnyKeys()),
}


def outcome(name: str) -> str:
    """Return the program after a pass under validation, the verdicts, and the reasons."""
    text, made = REWRITES[name]
    module = parse(text)
    with validating(validate) as validation:
        run = PassRun(module, PassContext({}))
        run.one("-p", made)
        run.finish()
    module.verify()
    told = [
        f"{o.anchor}: {'applied' if isinstance(o, Applied) else o.reason.name}"
        for o in run.report.outcomes
    ]
    return "\n".join([str(module), *(item.status for item in validation.checked), *told])
