"""`// expected-error {{text}}` in the input of graphopt-opt: `-verify-diagnostics` of mlir-opt.

`expected-error@+1 {{...}}` is about the next line, `@-2` about two lines before, `@above` and
`@below` about the adjacent line, `expected-error@unknown` about any line. The message must contain
the text. Parsing stops at the first error, so a chunk expects one.
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
    """Parse the expected errors in the comments of a source."""
    found: list[Expected] = []
    for number, line in enumerate(source.split("\n"), 1):
        for where, text in _COMMENT.findall(line):
            offset = _NEXT_TO.get(where) or (int(where) if where[:1] in ("+", "-") else 0)
            found.append(Expected(text, None if where == "unknown" else number + offset))
    return found


def complaint(expected: list[Expected], error: Exception | None) -> str:
    """Compose the message for the first expectation that fails; empty when all hold."""
    if error is None:
        return f'expected error "{expected[0].text}" was not produced'
    message, line = str(error), line_of(error)
    for each in expected:
        if each.text not in message:
            return f'expected error "{each.text}" was not produced, but this was: {message}'
        if None not in (line, each.line) and line != each.line:
            return f'error "{each.text}" is at line {line}, expected at line {each.line}'
    return ""


def line_of(error: Exception) -> int | None:
    """Find the line of a parser error in its chunk, from 1; None for other errors."""
    if not isinstance(error, ParseError):
        return None
    return len(error.span.input.content[: error.span.start + 1].splitlines())
