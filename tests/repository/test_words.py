"""The prose of the package: docstrings name the thing, in the words of the field."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "graphopt"
QUESTION = re.compile(r"\s*(What|How|Where|Which|Why|Whether)\b")
# a file that may have one: only these are parsed
SUSPECT = re.compile(rf'["\']{QUESTION.pattern}')
NOUN = re.compile(r'"""(The|An?|One|All|Each|Every|As|Numbers|Rows)\b')

# A word that prose does not use -> the field's word. Words with a right use in some file ("lie" of
# points between others, "beside", "apart") are not here, though mostly another one is better.
FIELD_WORDS = {
    "anew": "again",
    "as it is": "unchanged",
    "asked for": "requested",
    "asks for": "needs, requests",
    "at rest": "stored",
    "behind": "after",
    "besides": "with, in addition",
    "everybody": "all, with a noun",
    "lies": "is stored",
    "nobody": "no, with a noun",
    "now and then": "intermittently",
    "of whom": "whose",
    "picture": "pattern",
    "pictures": "patterns",
    "somebody": "the noun",
    "someone": "the noun",
    "tell": "report",
    "tells": "reports",
    "that is there": "present, matching",
    "told": "reported",
    "turned": "transposed",
    "turns": "converts, maps",
    "wants": "needs",
}
# functions, but for properties
FUNCTION = re.compile(r"(?<!property)\n *def (\w+)\(")
PARTICIPLE = re.compile(
    "[a-z]+ed|begun|bound|brought|built|chosen|done|drawn|found|given|gone|held|hidden|kept|known|"
    "made|met|said|seen|sent|shown|spent|taken|told|written"
)
# other words, and names that users know
NO_PARTICIPLES = {"applied", "buffered", "declined", "deprecated", "embed", "feed", "_feed"}
NO_PARTICIPLES |= {"seed", "_seed", "searchsorted"}
FORBIDDEN = re.compile(r"\b(" + "|".join(FIELD_WORDS).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
pytestmark = pytest.mark.smoke


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, including attributes', with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module, and its strings of several words, including docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


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


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """No function but a property is described as a thing: "The sizes of ...", "A list of ..."."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if NOUN.search(source := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if NOUN.match('"""' + (ast.get_docstring(node) or ""))
        if not any("property" in ast.unparse(each) for each in node.decorator_list)
    ]
    assert not found, "\n" + "\n".join(found)


def test_words_are_the_fields() -> None:
    """Docstrings, comments and messages use the field's words, and none of `FIELD_WORDS`."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {match[1]!r} -> {FIELD_WORDS[word]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if FORBIDDEN.search(source := path.read_text("utf-8"))
        for line, text in sentences(source)
        for match in FORBIDDEN.finditer(text)
        if (word := re.sub(r"\s+", " ", match[1].lower()))
    ]
    assert not found, "\n" + "\n".join(found)


def test_functions_are_verbs() -> None:
    """No function but a property is named by a participle alone, such as `_made`."""
    found = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in FUNCTION.findall(path.read_text("utf-8"))
        if PARTICIPLE.fullmatch(name.strip("_")) and name not in NO_PARTICIPLES
    ]
    assert not found, "\n" + "\n".join(found)
