"""All or nothing: a call that fails leaves programs as they were before it.

Inside a `transaction`, code that edits a program registers by `note` how to undo the edit. Programs
are not copied, so a call costs the same in a large program as in a small one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Step = tuple[Callable[..., object], tuple[Any, ...]]


class _Journal(threading.local):
    """The edits since the outermost transaction of this thread began; None outside of all."""

    steps: list[_Step] | None = None


_journal = _Journal()


def note(undo: Callable[..., object], *args: Any) -> None:
    """Register `undo(*args)`, called if the transaction around this edit fails."""
    steps = _journal.steps
    if steps is not None:
        steps.append((undo, args))


def note_attributes(owner: object, *names: str) -> None:
    """Restore these attributes of `owner` to their present values if the transaction fails."""
    if _journal.steps is not None:
        for name in names:
            note(setattr, owner, name, getattr(owner, name))


def put(mapping: MutableMapping[_Key, _Value], key: _Key, value: _Value) -> None:
    """Enter a new key, to be removed if the transaction fails."""
    note(mapping.pop, key, None)
    mapping[key] = value


def begin() -> int | None:
    """Start a transaction; return the argument of `roll_back` or `commit`."""
    if _journal.steps is None:
        _journal.steps = []
        return None
    return len(_journal.steps)


def roll_back(start: int | None) -> None:
    """Undo the edits of a transaction, the latest first, and end it."""
    steps = _journal.steps or []
    _journal.steps = None  # an undo step itself is no edit
    try:
        while len(steps) > (start or 0):
            undo, args = steps.pop()
            undo(*args)
    finally:
        _journal.steps = None if start is None else steps


def commit(start: int | None) -> None:
    """End a transaction; its edits belong to the one around it, if there is one."""
    if start is None:
        _journal.steps = None


@contextmanager
def transaction() -> Generator[None]:
    """Undo every edit made in the block if it raises."""
    start = begin()
    try:
        yield
    except BaseException:
        roll_back(start)
        raise
    commit(start)
