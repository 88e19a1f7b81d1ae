"""Where in the user's own code an operator was made."""

from __future__ import annotations

import contextlib
import inspect
import os
from typing import NamedTuple

# The ends of `with` blocks append operators too, through the standard library.
_NOT_THE_USERS = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    contextlib.__file__,
)


class Location(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller_location() -> Location | None:
    """The innermost frame that is outside the graphopt package; None when there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_NOT_THE_USERS):
            return Location(code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
