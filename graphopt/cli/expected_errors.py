"""`// expected-error {{text}}` in the input of graphopt-opt: `-verify-diagnostics` of mlir-opt.

`expected-error@+1 {{...}}` is about the next line, `@-2` about two lines before, `@above` and
`@below` about the line next to it; `expected-error@unknown` about any. The text has to be a part of
the message. Reading stops at the first error, so a chunk expects one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.utils.exceptions import ParseError

_COMMENT = re.compile(r"expected-error(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}")
_NEXT_TO = {"above": -1, "below": 1}


@dataclass(frozen=True)
class Expected:
    """An error that a comment expects; the line counts from 1, None for any."""

    text: str
    line: int | None


def expected_in(source: str) -> list[Expected]:
    """The expectations in the comments of a source."""
    found: list[Expected] = []
    for number, line in enumerate(source.split("\n"), 1):
        for where, text in _COMMENT.findall(line):
            offset = _NEXT_TO.get(where) or (int(where) if where[:1] in ("+", "-") else 0)
            found.append(Expected(text, None if where == "unknown" else number + offset))
    return found


def complaint(expected: list[Expected], error: Exception | None) -> str:
    """The sentence about an expectation that does not hold; empty when all do."""
    if error is None:
        return f'expected error "{expected[0].text}" was not produced'
    message, line = str(error), line_of(error)
    for each in expected:
        if each.text not in message:
            return f'expected error "{each.text}" was not produced, but this was: {message}'
        if None not in (line, each.line) and line != each.line:
            return f'the error "{each.text}" is about line {line}, expected at line {each.line}'
    return ""


def line_of(error: Exception) -> int | None:
    """The line of a parser's error in its chunk, from 1; other errors know none."""
    if not isinstance(error, ParseError):
        return None
    return len(error.span.input.content[: error.span.start + 1].splitlines())
