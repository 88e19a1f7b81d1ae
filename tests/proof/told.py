"""The reasons on the programs of the pages: near misses, and the rewrites of all fusions together.

Both are recorded in `tests/data`. With GRAPHOPT_UPDATE_PAGES in the environment their tests write
the files again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.fusion import Fusion, Reason, sweep
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.near_misses import NearMisses
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.schedule import select
from graphopt.testing import Case, load_page, parse
from graphopt_tests.proof.corpus import FUSIONS
from graphopt_tests.proof.transforms import PASS_FLAGS

TESTS = Path(__file__).parents[1]
KEPT = TESTS / "data" / "near_misses.txt"
KEPT_TOGETHER = TESTS / "data" / "fusions_together.txt"
# the pages of fusions that others compete with
SHARED = (
    "fused-feedforward",
    "fuse-gemm-epilogue",
    "fuse-bn-add-act",
    "fuse-bn-act",
    "fuse-elewise-add-act",
)


@cache
def fusion_cases() -> list[Case]:
    """List the cases of the pages of all fusions."""
    pages = [TESTS / "passes" / f"{name}.md" for name in FUSIONS]
    return [case for page in pages for case in load_page(page)]


def near_misses(name: str) -> list[str]:
    """List a line for each near miss of a pass in the programs of its pages."""
    rules = [(name, rule) for rule in FUSIONS[name].RULES]
    return [
        f"{name} | {case.title} | {miss.anchor} | {miss.reason}"
        for case in fusion_cases()
        if case.pass_name == name
        for miss in NearMisses(parse(case.before), rules).left()
    ]


@cache
def kept(name: str) -> list[str]:
    """Return the recorded lines of a pass."""
    return [line for line in KEPT.read_text().splitlines() if line.startswith(f"{name} | ")]


@cache
def rules_together() -> list[tuple[str, Fusion]]:
    """List the rules of all fusions with the names of their passes, ranked as in the pipeline."""
    chosen = select(PassContext(dict.fromkeys(PASS_FLAGS, True)))
    return [
        (made.name, rule)
        for _, made in chosen
        if isinstance(made, tuple(FUSIONS.values()))
        for rule in made.RULES
    ]


@dataclass
class Told:
    """A watcher that notes rewrites and refusals in words."""

    lines: list[str] = field(default_factory=list[str])

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Note the ops that a pass took, and the ops that it made."""
        taken, new = (" ".join(map(show_op, each)) for each in (ops, made))
        self.lines.append(f"{rule} | {taken} | {new}")

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Note why a pass left an op unchanged."""
        self.lines.append(f"{rule} | {show_op(op)} | {reason}")


def together() -> list[str]:
    """List all rewrites and refusals when all fusions run on a program."""
    found: list[str] = []
    for case in (case for case in fusion_cases() if case.pass_name in SHARED):
        told = Told()
        sweep(parse(case.before), rules_together(), [told])
        found += [f"{case.pass_name} | {case.title} | {line}" for line in told.lines]
    return found


@cache
def kept_together() -> list[str]:
    """Return the recorded lines of all fusions together."""
    return KEPT_TOGETHER.read_text().splitlines()
