"""Before/after pages: Markdown that documents a pass and tests it.

A heading starts a case. Its first `mlir` block is the program before the pass; then comes either
an `mlir` block with the program afterwards, or a `refused` block with the reason. Setting the
environment variable GRAPHOPT_UPDATE_PAGES rewrites the second blocks with what happens now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_spec

from graphopt.ir.dialect import context
from graphopt.ir.text import parse_text
from graphopt.passes.fusion import Declined, FusionPass, sweep
from graphopt.passes.registry import all_passes
from graphopt.passes.rewrite import RewritePass
from graphopt.testing.compare import assert_same_results, run_module

_HEADING = re.compile(r"^(#+) +(.*)$")
_FENCE = re.compile(r"^```(\w*) *$")
UPDATE = "GRAPHOPT_UPDATE_PAGES"


@dataclass(frozen=True)
class Case:
    """One case of a page: the pass, the program before, and what is expected.

    `options` are those of the pass, as `graphopt-opt -p` takes them.
    """

    page: Path
    title: str
    pass_name: str
    before: str
    expected_kind: str
    expected: str
    options: str = ""

    def made(self) -> ModulePass:
        """The pass, with its options."""
        spec = parse_spec(self.pass_name + self.options)
        return all_passes()[self.pass_name]().from_pass_spec(spec)


def load_page(path: Path) -> list[Case]:
    """The cases of a page; the first heading names the pass, with its options in braces.

    ValueError for a malformed page.
    """
    title = pass_name = options = language = ""
    blocks: list[tuple[str, str]] = []
    lines: list[str] = []
    cases: list[Case] = []
    inside = False
    for line in path.read_text().splitlines():
        fence = _FENCE.match(line)
        heading = None if inside else _HEADING.match(line)
        if heading:
            if not pass_name:
                pass_name, brace, options = heading[2].partition("{")
                options = brace + options
            title, blocks = heading[2], []
        elif fence and not inside:
            inside, language, lines = True, fence[1], []
        elif fence:
            inside = False
            blocks.append((language, "\n".join(lines)))
            if len(blocks) == 2:
                (_, before), (kind, expected) = blocks
                cases.append(Case(path, title, pass_name, before, kind, expected, options))
        elif inside:
            lines.append(line)
    if not cases or inside:
        raise ValueError(f"{path} has no complete case")
    return cases


def parse(text: str, name: str = "<text>") -> ModuleOp:
    """The module of IR text, verified."""
    module = parse_text(text, name)
    module.verify()
    return module


def check_case(case: Case, run: Callable[..., Any] = run_module) -> None:
    """AssertionError unless the pass does to the program what the page says.

    A rewritten program must also compute the same numbers as before, by `run`.
    """
    before = parse(case.before, f"{case.page}: {case.title}")
    after = before.clone()
    declined = run_pass(case.made(), after)
    if str(after) == str(before):
        kind, found = "refused", "\n".join(dict.fromkeys(str(d.reason) for d in declined))
        found = found or "no pattern"
    else:
        kind, found = "mlir", str(after)
        after.verify()
        assert_same_results(before, after, run=run)
    if os.environ.get(UPDATE):
        _update(case, kind, found)
        return
    assert (kind, found) == (case.expected_kind, case.expected), (
        f"{case.page.name}, '{case.title}': expected\n{case.expected}\nfound\n{found}\n"
        f"(set {UPDATE}=1 to accept what happens now)"
    )


def run_pass(made: ModulePass, module: ModuleOp) -> list[Declined]:
    """Run a pass; what it declined."""
    if isinstance(made, FusionPass):
        outcomes = sweep(module, [(made.name, rule) for rule in made.RULES])
        return [outcome for outcome in outcomes if isinstance(outcome, Declined)]
    if isinstance(made, RewritePass):
        return [outcome for outcome in made.rewrite(module) if isinstance(outcome, Declined)]
    made.apply(context(), module)
    return []


def _update(case: Case, kind: str, found: str) -> None:
    old = f"```{case.expected_kind}\n{case.expected}\n```"
    text = case.page.read_text()
    at = text.index(f"# {case.title}\n")
    start = text.index(old, text.index(case.before, at) + len(case.before))
    case.page.write_text(text[:start] + f"```{kind}\n{found}\n```" + text[start + len(old) :])
