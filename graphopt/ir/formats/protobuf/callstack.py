"""The user's source line from the Python stack that Paddle stores with an operator."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphopt.ir.program.location import Location

_FRAME = re.compile(r'\s*File "([^"]+)", line (\d{1,9})')
# Paddle's own frames, and those of the package that wraps its functions in decorators.
_PADDLE = re.compile(r"(?:site|dist)-packages[\\/](?:paddle[\\/]|decorator)")


def callstack_location(lines: Sequence[str]) -> Location | None:
    """The innermost frame of an `op_callstack` that is outside Paddle; None when there is none."""
    for line in reversed(lines):
        frame = _FRAME.match(line)
        if frame and not _PADDLE.search(frame[1]):
            return Location(frame[1], int(frame[2]))
    return None
