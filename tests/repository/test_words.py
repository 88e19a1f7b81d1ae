"""The prose of the package: a docstring names the thing, then says what it does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "graphopt"
QUESTION = re.compile(r"\s*(What|How|Where|Which|Why|Whether)\b")
# a file that may have one: only these are parsed
SUSPECT = re.compile(rf'["\']{QUESTION.pattern}')
pytestmark = pytest.mark.smoke


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, with their lines; those of attributes included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text


def test_docstrings_name_the_thing() -> None:
    """No docstring begins with What, How, Where, Which, Why or Whether."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text.strip().splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if SUSPECT.search(source := path.read_text("utf-8"))
        for line, text in docstrings(source)
        if QUESTION.match(text)
    ]
    assert not found, "\n" + "\n".join(found)
