"""The source line of the user's code that created an operator."""

from __future__ import annotations

import contextlib
import inspect
import os
from types import CodeType
from typing import NamedTuple

# The end of a `with` block also appends operators, through the standard library.
_NOT_THE_USERS = (
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep,
    contextlib.__file__,
)


class Location(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller_location() -> Location | None:
    """Find the innermost frame outside the graphopt package; None when there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code):
            return Location(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def caller_level() -> int:
    """Compute the `stacklevel` with which the caller's warning names the user's line."""
    frame = inspect.currentframe()
    level = 0
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
        level += 1
    return level


def is_users(code: CodeType) -> bool:
    """True for code outside the graphopt package."""
    return not code.co_filename.startswith(_NOT_THE_USERS)
