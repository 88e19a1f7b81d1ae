"""Names and values from files, as errors show them: always printable and short."""

from __future__ import annotations

import reprlib

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
_REPR.maxlist = 12


def quote(value: object) -> str:
    """A name or value for an error message, abbreviated in the middle when it is long."""
    return _REPR.repr(value)


def kind_of(value: object) -> str:
    """The name of a value's class, for errors."""
    return type(value).__name__
