"""The terminal: its width, and whether it gets colors.

`NO_COLOR` (no-color.org) switches colors off; files and pipes never get any.
"""

from __future__ import annotations

import os
import sys
from typing import Any

WIDEST = 100
"""The most columns of a text, also on a wider terminal."""
_NARROWEST = 60
_CODES = {"head": "1", "good": "32", "warn": "33", "dim": "2"}


def is_terminal(stream: Any) -> bool:
    """True when a stream is a terminal; False for None, of a program without a console."""
    return stream is not None and not stream.closed and stream.isatty()


def has_colour(stream: Any) -> bool:
    """True for a terminal that shows colors, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not plain


def width_of(stream: Any = None) -> int:
    """Return the columns of a terminal, within limits; the default where there is none."""
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        return WIDEST
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return WIDEST
    return max(min(columns or WIDEST, WIDEST), _NARROWEST)


def paint(text: str, style: str) -> str:
    """Color a text by its style."""
    code = _CODES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text
