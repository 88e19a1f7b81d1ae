"""Names and values from files, formatted for errors: always printable and short."""

from __future__ import annotations

import reprlib

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
_REPR.maxlist = 12


def quote(value: object) -> str:
    """Format a name or value for an error message; a long one is abbreviated in the middle."""
    return _REPR.repr(value)


def kind_of(value: object) -> str:
    """Return the name of a value's class, for errors."""
    return type(value).__name__
