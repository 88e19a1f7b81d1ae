"""Before/after pages: Markdown that documents a pass and tests it.

A heading starts a case. Its first `mlir` block is the program before the pass; then comes either an
`mlir` block with the program afterwards, or a `refused` block with the reason. A second block has
the body alone where the signature stays the same.

A program that is similar to an earlier case may be a `diff` block instead, from that case:

    --- The title of the earlier case
    -  %y = pd.relu(%a)
    +  %y = pd.sigmoid(%a)

Lines that the program lacks begin with `-`, additional lines with `+`, and lines that only give the
place with a space. All lines in between are left out. A program afterwards that is mostly unchanged
may be a `diff` block from the program before, which has no title.

Setting the environment variable GRAPHOPT_UPDATE_PAGES rewrites both blocks of each case: the first
one with the program in its present print, the second one with the present result.
"""

from __future__ import annotations

import difflib
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
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
_BLOCK = re.compile(r"^```(\w+)\n.*?^```$", re.MULTILINE | re.DOTALL)
# begins the first line of a diff, before the title of a case
_FROM = "--- "
UPDATE = "GRAPHOPT_UPDATE_PAGES"


@dataclass(frozen=True)
class Case:
    """One case of a page: the pass, the program before, and the expected result.

    `options` are pass options, as `graphopt-opt -p` takes them. `diff` is a block of the page that
    leads from the program of `base`, an earlier case, to this one; `changes` is a block that leads
    from this program to the result.
    """

    page: Path
    title: str
    pass_name: str
    before: str
    expected_kind: str
    expected: str
    options: str = ""
    base: Case | None = None
    diff: str = ""
    changes: str = ""

    def make_pass(self) -> ModulePass:
        """Make the pass, with its options."""
        spec = parse_spec(self.pass_name + self.options)
        # a pass of graphopt is loaded without a search for passes of other packages
        passes = own_passes() if self.pass_name in own_passes() else all_passes()
        return passes[self.pass_name]().from_pass_spec(spec)


def load_page(path: Path) -> list[Case]:
    """Read the cases of a page; the first heading names the pass, with its options in braces.

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
                (first, before), (kind, expected) = blocks
                base, diff = None, before if first == "diff" else ""
                if diff:
                    base = _base(path, diff, cases)
                    before = apply_diff(diff.partition("\n")[2], base.before)
                changes = expected if kind == "diff" else ""
                if changes:
                    kind, expected = "mlir", _result(changes, before, f"{path.name}, '{title}'")
                cases.append(
                    Case(
                        path,
                        title,
                        pass_name,
                        before,
                        kind,
                        expected,
                        options=options,
                        base=base,
                        diff=diff,
                        changes=changes,
                    )
                )
        elif inside:
            lines.append(line)
    if not cases or inside:
        raise ValueError(f"{path} has no complete case")
    return cases


def _base(path: Path, diff: str, cases: Sequence[Case]) -> Case:
    """Find the earlier case that a diff names."""
    title = diff.partition("\n")[0].removeprefix(_FROM)
    found = next((case for case in cases if case.title == title and not case.diff), None)
    if found is None:
        raise ValueError(f"{path}: a diff begins with `{_FROM}` and the title of an earlier case")
    return found


def _result(changes: str, before: str, case: str) -> str:
    """Apply a case's changes to the program before.

    ValueError if they do not fit the program, unless pages are being rewritten.
    """
    try:
        return _without_signature(before, apply_diff(changes, before))
    except ValueError as error:
        if os.environ.get(UPDATE):
            return ""
        raise ValueError(f"{case}: {error} (set {UPDATE}=1 to write the diff again)") from error


def apply_diff(diff: str, text: str) -> str:
    """Apply a diff to a text.

    Each line of the diff that is in the text, too, is the next equal one there. ValueError if there
    is no such line.
    """
    old, made = iter(text.splitlines()), list[str]()
    for line in diff.splitlines():
        mark, rest = line[:1], line[1:]
        if mark == "+":
            made.append(rest)
            continue
        for each in old:
            if each == rest:
                break
            made.append(each)
        else:
            raise ValueError(f"expected this line in the program that a diff changes: {rest}")
        if mark != "-":
            made.append(rest)
    return "\n".join([*made, *old])


def difference(old: str, new: str) -> str:
    """Compute the shortest diff that leads from one text to another."""
    before, after = old.splitlines(), new.splitlines()
    for context in range(len(before) + 1):
        lines = [
            line
            for line in list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
            if not line.startswith("@@")
        ]
        found = "\n".join(lines)
        if apply_diff(found, old) == new:
            return found
    raise AssertionError("a diff with every line applies")


def parse(text: str, name: str = "<text>") -> ModuleOp:
    """Parse and verify a module."""
    module = parse_text(text, name)
    module.verify()
    return module


def check_case(case: Case, run: Callable[..., Any] = run_module) -> None:
    """Check that the pass gives the page's result on the program; else raise AssertionError.

    A rewritten program must also compute the same numbers as before, by `run`.
    """
    before = parse(case.before, f"{case.page}: {case.title}")
    after = before.clone()
    declined = run_pass(case.make_pass(), after)
    if after.is_structurally_equivalent(before):
        kind, found = "refused", "\n".join(dict.fromkeys(str(d.reason) for d in declined))
        found = found or "no pattern"
    else:
        kind, found = "mlir", result_text(before, after)
        after.verify()
        assert_same_results(before, after, run=run)
    if os.environ.get(UPDATE):
        _update(case, page_text(before), page_text(after), kind, found)
        return
    assert (kind, found) == (case.expected_kind, case.expected), (
        f"{case.page.name}, '{case.title}': expected\n{case.expected}\nfound\n{found}\n"
        f"(set {UPDATE}=1 to accept what happens now)"
    )


def run_pass(made: ModulePass, module: ModuleOp) -> list[Declined]:
    """Run a pass and return its declined instances."""
    if isinstance(made, FusionPass):
        outcomes = sweep(module, [(made.name, rule) for rule in made.RULES])
        return [outcome for outcome in outcomes if isinstance(outcome, Declined)]
    if isinstance(made, RewritePass):
        return [outcome for outcome in made.rewrite(module) if isinstance(outcome, Declined)]
    made.apply(new_context(), module)
    return []


def page_text(module: ModuleOp) -> str:
    """Print a module as pages show it: as its one function, where it has nothing else.

    Signatures take few lines: arguments follow each other on a line.
    """
    alone = not module.attributes and module.body.block.first_op is module.body.block.last_op
    shown = module.body.block.ops.first or module if alone else module
    return text_of(shown, short_signatures=True)


def result_text(before: ModuleOp, after: ModuleOp) -> str:
    """Print a rewritten module as pages show it: without a signature that did not change."""
    return _without_signature(page_text(before), page_text(after))


def _without_signature(before: str, text: str) -> str:
    """Strip the signature of a program's text if the program before has the same one."""
    signature, start, _ = before.partition(") {\n")
    same, _, body = text.partition(start)
    if same != signature or not body.endswith("\n}"):
        return text
    return textwrap.dedent(body.removesuffix("\n}"))


def _update(case: Case, before: str, after: str, kind: str, found: str) -> None:
    """Write both blocks of a case, which may be empty."""
    if case.changes and kind == "mlir":
        kind, found = "diff", difference(before, after)
    if case.base is not None:
        before = f"{_FROM}{case.base.title}\n" + difference(
            page_text(parse(case.base.before)), before
        )
    text = case.page.read_text("utf-8")
    first, second = islice(_BLOCK.finditer(text, text.index(f"# {case.title}\n")), 2)
    parts = (
        *(text[: first.start()], f"```{first[1]}\n{before}\n```"),
        *(text[first.end() : second.start()], f"```{kind}\n{found}\n```", text[second.end() :]),
    )
    case.page.write_text("".join(parts))
