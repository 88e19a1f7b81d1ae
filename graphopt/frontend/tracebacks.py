"""Tracebacks that end at the user's line: the frames of graphopt are left out of its own errors.

An error that a `raise` of graphopt raised is explained by its message, so its traceback keeps only
the caller's frames. An unexpected error inside graphopt keeps all frames for a bug report.
`FLAGS_graphopt_full_traceback` always keeps them, for a debugger.
"""

from __future__ import annotations

from dis import opmap
from types import TracebackType
from typing import TypeVar

from graphopt.errors import GraphoptError
from graphopt.ir.program.location import is_users
from graphopt.runtime.settings.flags import full_traceback

_RAISE = opmap["RAISE_VARARGS"]
_Error = TypeVar("_Error", bound=BaseException)


def shorten(error: _Error) -> _Error:
    """The error, with only the frames of the caller's code if graphopt meant to raise it."""
    if not full_traceback() and _is_meant(error):
        error.__traceback__ = _users(error.__traceback__)
    return error


def _is_meant(error: BaseException) -> bool:
    if isinstance(error, GraphoptError):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and not is_users(last.tb_frame.f_code) and _raises(last)


def _raises(entry: TracebackType) -> bool:
    """True when the frame was left by its own `raise` statement, not by one in a callee."""
    return entry.tb_frame.f_code.co_code[entry.tb_lasti] == _RAISE


def _users(entry: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while entry is not None:
        if is_users(entry.tb_frame.f_code):
            kept.append(entry)
        entry = entry.tb_next
    following = None
    for one in reversed(kept):
        one.tb_next = following
        following = one
    return following
