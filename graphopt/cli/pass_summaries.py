"""A line for each pass: the first sentence of its docstring, read without importing its module.

Importing all passes takes longer than all else that `--help` does.
"""

from __future__ import annotations

import ast
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from textwrap import wrap

from graphopt.passes.table.order import ROWS
from graphopt.passes.table.registry import GROUP, XDSL_PASSES

# where the words begin
_COLUMN = 28


def summaries() -> dict[str, str]:
    """The passes by name, in the order of the table; others last."""
    found = {row.pass_name: "" for row in ROWS}
    for path in dict.fromkeys(row.path for row in ROWS):
        found |= _docstrings(path, set(found))
    found |= XDSL_PASSES | {point.name: _origin(point) for point in entry_points(group=GROUP)}
    return found


def listed() -> str:
    """The passes as a list under a title."""
    lines = ["passes:"]
    for name, words in summaries().items():
        first = f"  {name} " if len(name) > _COLUMN - 3 else f"  {name:<{_COLUMN - 3}} "
        lines += wrap(words, 99, initial_indent=first, subsequent_indent=" " * _COLUMN)
    return "\n".join(lines)


def _origin(point: EntryPoint) -> str:
    return f"of the package {point.dist.name}" if point.dist is not None else point.value


def _docstrings(path: Path, names: set[str]) -> dict[str, str]:
    """The first lines of the docstrings of the classes whose `name` is one of these."""
    tree = ast.parse(path.read_text("utf-8"))
    found: dict[str, str] = {}
    for node in tree.body:
        name = _name(node) if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and name in names:
            words = (ast.get_docstring(node) or "").partition("\n\n")[0]
            found[name] = " ".join(words.split())
    return found


def _name(node: ast.ClassDef) -> str | None:
    """The class attribute `name`."""
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            targets = [target.id for target in line.targets if isinstance(target, ast.Name)]
            if targets == ["name"]:
                return str(line.value.value)
    return None
