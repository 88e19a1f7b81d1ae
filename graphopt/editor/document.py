"""A `.mlir` text for an editor: its problems, the facts at a position, and the text after passes.

Lines and columns count from 0, as in the Language Server Protocol; a column counts characters.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from graphopt.errors import GraphoptError
from graphopt.ir.dialect.context import new_context, parse_text
from graphopt.ir.dialect.definition import default_attrs
from graphopt.ir.dialect.op import PdOp, class_of
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.types import show
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import PassRun
from graphopt.passes.table.pipeline import passes_of

_VALUE = re.compile(r"%[A-Za-z0-9_$.]+")
_OP = re.compile(r"pd\.[a-z0-9_]+")


@dataclass(frozen=True)
class Problem:
    """An error in a text, at some characters of a line."""

    line: int
    start: int
    end: int
    message: str


def problems(text: str, name: str = "<text>") -> list[Problem]:
    """Find the errors of a text: the parser's first one, or the verifier's of all ops."""
    try:
        module = parse_text(text, name)
    except ParseError as error:
        return [_of_parser(text, error)]
    except (GraphoptError, DiagnosticException) as error:
        return [Problem(0, 0, 1, str(error))]
    return list(_of_verifier(text, module))


def _of_parser(text: str, error: ParseError) -> Problem:
    before = text[: error.span.start]
    line = before.count("\n")
    start = error.span.start - (before.rfind("\n") + 1)
    name = re.search(rf"{_OP.pattern}$", before)
    if name is not None and name[0] in error.msg:  # the parser stops after the name of an op
        return Problem(line, start - len(name[0]), start, error.msg)
    return Problem(line, start, start + max(len(error.span), 1), error.msg)


def _of_verifier(text: str, module: ModuleOp) -> Iterator[Problem]:
    found = False
    for op in module.walk():
        try:
            op.verify_()
        except (GraphoptError, VerifyException) as error:
            found = True
            yield _at(text, op, str(error))
    if not found:
        try:
            module.verify()
        except VerifyException as error:
            yield Problem(0, 0, 1, str(error))


def _at(text: str, op: Operation, message: str) -> Problem:
    """Locate a problem of an op at the line that defines its first result."""
    hint = op.results[0].name_hint if op.results else None
    wanted = re.compile(rf"^\s*(%[\w$., ]*)?%{re.escape(hint or '')}\b.*\b{re.escape(op.name)}\b")
    for number, line in enumerate(text.split("\n")):
        if (hint and wanted.match(line)) or (not hint and op.name in line):
            start = line.index(op.name)
            return Problem(number, start, start + len(op.name), message)
    return Problem(0, 0, 1, message)


def facts_at(text: str, line: int, column: int) -> str:
    """Describe the value's type or the op at a position, in Markdown; "" for neither."""
    lines = text.split("\n")
    if not 0 <= line < len(lines):
        return ""
    for pattern, facts in ((_VALUE, _of_value), (_OP, _of_op)):
        for match in pattern.finditer(lines[line]):
            if match.start() <= column < match.end():
                return facts(text, match[0])
    return ""


def _of_value(text: str, name: str) -> str:
    try:
        module = parse_text(text)
    except (ParseError, GraphoptError, DiagnosticException):
        return ""
    for value in _values(module):
        if f"%{value.name_hint}" == name:
            owner = value.owner
            made = "an argument" if isinstance(owner, Block) else f"the result of `{owner.name}`"
            return f"`{name}`: `{value.type}`\n\n{show(value.type)}, {made}"
    return ""


def _values(module: ModuleOp) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _of_op(text: str, name: str) -> str:
    try:
        kind: type[PdOp] = class_of(name)
    except GraphoptError:
        return ""
    lines = [f"**{name}**", "", inspect.getdoc(kind) or ""]
    defaults = default_attrs(kind)
    if defaults:
        lines += ["", "attributes: " + ", ".join(f"`{k} = {v!r}`" for k, v in defaults.items())]
    return "\n".join(lines)


def after_passes(text: str, pipeline: str) -> str:
    """Print the program after passes, as `-p` takes them.

    Raises as the parser and `passes_of`; PassError for a pass that fails.
    """
    module = parse_text(text)
    module.verify()
    run, context = PassRun(module, PassContext({}), verify_each=True), new_context()
    for made in passes_of(pipeline):
        run.one("-p", made, context)
    return text_of(module) + "\n"
