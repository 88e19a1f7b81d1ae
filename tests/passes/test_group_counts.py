"""The groups of saved models: the number of ops in them, and the reasons for ops outside."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, RowKernel
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.models.model import read_program_only
from graphopt.passes.engine.fusion import Declined
from graphopt.passes.engine.naming import show_op
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt.passes.target.choose_group_kernel import ChooseGroupKernel
from graphopt_tests.model_files import cases, program_files

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "fusion-groups.md"


@dataclass
class Count:
    """The groups of a program with `build_cinn_pass`, and the number with a GPU kernel."""

    groups: int = 0
    inside: int = 0
    loose: int = 0
    kernels: int = 0
    outside: Counter[str] = field(default_factory=Counter[str])

    def row(self, name: str) -> str:
        """Format a row of the table in the documentation."""
        reasons = ", ".join(f"{name} {count}" for name, count in self.outside.most_common())
        counts = f"{self.inside + self.loose} | {self.groups} | {self.inside} | {self.kernels}"
        return f"| {name} | {counts} | {reasons} |"


def count_groups(file: Path) -> Count:
    """Count the groups of a saved program; ops in regions of loops and branches do not count."""
    read = read_program_only(file)
    module = parse_program(read.program, read.feed_names, read.fetch_names)
    report = optimize(module, PassContext({"build_cinn_pass": True}, platform="cpu"))
    declined = {
        outcome.anchor: outcome.reason.name
        for outcome in report.outcomes
        if isinstance(outcome, Declined) and outcome.rule == "group-reductions"
    }
    found = Count()
    for op in main_function(module).body.block.ops:
        if isinstance(op, FusionGroup):
            found.groups += 1
            found.inside += len(op.body.block.ops) - 1
        elif isinstance(op, PdOp) and not isinstance(op, Grad):
            found.loose += 1
            # one op alone saves nothing
            found.outside[declined.get(show_op(op), "small-gain")] += 1
    ChooseGroupKernel("gpu").rewrite(module)
    found.kernels = sum(isinstance(op, RowKernel) for op in module.walk())
    return found


def program_of(case: Path) -> Path | None:
    """Find the main program of a case; None for text models, which need lengths, too."""
    files = [file for file in program_files() if case in file.parents]
    main = (file for file in files if "startup" not in file.name and "text_lod" not in str(file))
    return next(main, None)


@pytest.mark.exhaustive
def test_groups_of_models() -> None:
    """The table in the documentation matches the repository's models; others can be grouped."""
    text = PAGE.read_text("utf-8")
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines()}
    for case in cases():
        file = program_of(case)
        if file is not None:
            row = count_groups(file).row(case.name)
            assert rows.get(case.name, row) == row
