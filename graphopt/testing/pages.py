"""Before/after pages: Markdown that documents a pass and tests it.

A heading starts a case. Its first `mlir` block is the program before the pass; then comes either an
`mlir` block with the program afterwards, or a `refused` block with the reason. Setting the
environment variable GRAPHOPT_UPDATE_PAGES rewrites both blocks: the first one as the program is
printed now, the second one with the present result. A second block has the body alone where the
signature stays the same.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_spec

from graphopt.debug.compare import assert_same_results, run_module
from graphopt.ir.dialect.context import new_context, parse_text
from graphopt.ir.dialect.text import text_of
from graphopt.passes.engine.fusion import Declined, FusionPass, sweep
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.passes.table.registry import all_passes, own_passes

_HEADING = re.compile(r"^(#+) +(.*)$")
_FENCE = re.compile(r"^```(\w*) *$")
UPDATE = "GRAPHOPT_UPDATE_PAGES"


@dataclass(frozen=True)
class Case:
    """One case of a page: the pass, the program before, and the expected result.

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
        # a pass of graphopt is loaded without looking for those of other packages
        passes = own_passes() if self.pass_name in own_passes() else all_passes()
        return passes[self.pass_name]().from_pass_spec(spec)


def load_page(path: Path) -> list[Case]:
    """The cases of a page; the first heading names the pass, with its options in braces.

    ValueError for a malformed page.
    """
    title = pass_name = options = language = ""
    blocks: list[tuple[str, str]] = []
    lines: list[str] = []
    cases: list[Case] = []
    inside = False
    for line in path.read_text("utf-8").splitlines():
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
    """AssertionError unless the pass gives the page's result on the program.

    A rewritten program must also compute the same numbers as before, by `run`.
    """
    before = parse(case.before, f"{case.page}: {case.title}")
    after = before.clone()
    declined = run_pass(case.made(), after)
    if str(after) == str(before):
        kind, found = "refused", "\n".join(dict.fromkeys(str(d.reason) for d in declined))
        found = found or "no pattern"
    else:
        kind, found = "mlir", result_text(before, after)
        after.verify()
        assert_same_results(before, after, run=run)
    if os.environ.get(UPDATE):
        _update(case, page_text(before), kind, found)
        return
    assert (kind, found) == (case.expected_kind, case.expected), (
        f"{case.page.name}, '{case.title}': expected\n{case.expected}\nfound\n{found}\n"
        f"(set {UPDATE}=1 to accept what happens now)"
    )


def run_pass(made: ModulePass, module: ModuleOp) -> list[Declined]:
    """Run a pass; its declined instances."""
    if isinstance(made, FusionPass):
        outcomes = sweep(module, [(made.name, rule) for rule in made.RULES])
        return [outcome for outcome in outcomes if isinstance(outcome, Declined)]
    if isinstance(made, RewritePass):
        return [outcome for outcome in made.rewrite(module) if isinstance(outcome, Declined)]
    made.apply(new_context(), module)
    return []


def page_text(module: ModuleOp) -> str:
    """A module as pages show it: its one function, where it has nothing else."""
    alone = not module.attributes and module.body.block.first_op is module.body.block.last_op
    return text_of(module.body.block.ops.first or module if alone else module)


def result_text(before: ModuleOp, after: ModuleOp) -> str:
    """A rewritten module as pages show it: without a signature that did not change."""
    text = page_text(after)
    signature, start, _ = page_text(before).partition(") {\n")
    same, _, body = text.partition(start)
    if same != signature or not body.endswith("\n}"):
        return text
    return textwrap.dedent(body.removesuffix("\n}"))


def _update(case: Case, before: str, kind: str, found: str) -> None:
    old = f"```{case.expected_kind}\n{case.expected}\n```"
    text = case.page.read_text("utf-8")
    start = text.index(case.before, text.index(f"# {case.title}\n"))
    middle = start + len(case.before)
    end = text.index(old, middle)
    case.page.write_text(
        text[:start]
        + before
        + text[middle:end]
        + f"```{kind}\n{found}\n```"
        + text[end + len(old) :]
    )
