"""Scopes: the storage of persistable variables between runs.

The runtime owns the arrays: they may be donated to the next step, so a read always gives a copy
and a write replaces the slot. Paddle pages: paddle.static.global_scope, scope_guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from threading import RLock
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.display.facts import WithFacts
from graphopt.display.table import Column, Page, Table
from graphopt.display.units import several, size
from graphopt.display.units import shape as show_shape
from graphopt.errors import ScopeError
from graphopt.runtime.state.slots import Slot, Stack

# the most variables that a notebook shows, largest first
_SHOWN = 30


class Scope(WithFacts):
    """A map from names to values; lookups go on to the parents.

    `bound` is for executables: the slots that they use here, by the number of the executable.
    `prepared` holds values computed from parameters, with the source arrays. `lock` is shared by a
    scope, its parents and its kids, whose variables a step may use together.
    """

    changes: ClassVar[int] = 0
    """The variables created by all scopes so far; while the count stays, names map to the same
    slots."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self.lock: Any = RLock() if parent is None else parent.lock
        # dropped with the executable, of which runners keep a limited number
        self.bound: dict[int, tuple[int, Any]] = {}
        self.prepared: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()
        self._slots: dict[str, Slot] = {}
        self._kids: list[Scope] = []
        self._removed = False

    def var(self, name: str) -> Slot:
        """Return the variable of this scope itself, and create it when it does not exist."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = Slot(name, self.lock)
            Scope.changes += 1
        return slot

    def find_var(self, name: str) -> Slot | None:
        """Find the variable here or in the nearest parent that has it; None when none does."""
        scope: Scope | None = self
        while scope is not None:
            slot = scope._slots.get(name)
            if slot is not None:
                return slot
            scope = scope._parent
        return None

    def size(self) -> int:
        """Count the variables of this scope itself, with or without a value."""
        return len(self._slots)

    def new_scope(self) -> Scope:
        """Create a kid, a scope that sees this one's variables."""
        kid = Scope(self)
        self._kids.append(kid)
        return kid

    def drop_kids(self) -> None:
        """Forget the scopes made by `new_scope`."""
        self._kids.clear()

    def _remove_from_pool(self) -> None:
        """Forget the variables and kids, once; ScopeError (RuntimeError) the second time."""
        if self._removed:
            raise ScopeError(
                "Deleting a nonexistent scope is not allowed: the scope is deleted already"
            )
        self._removed = True
        self._kids.clear()
        with self.lock:
            self._slots.clear()
            Scope.changes += 1

    def _types(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return the shapes and dtypes of this scope's own variables that have a value."""
        with self.lock:
            found = {name: slot.value_type() for name, slot in self._slots.items()}
        return {name: type for name, type in found.items() if type is not None}

    def _facts(self) -> Mapping[str, str]:
        types = self._types()
        count = sum(prod(shape) * dtype.itemsize for shape, dtype in types.values())
        empty, kids = len(self._slots) - len(types), len(self._kids)
        found = {"variables": str(len(types)), "bytes": size(count)}
        if empty:
            found["without value"] = str(empty)
        return {**found, "kids": str(kids)} if kids else found

    def _page(self) -> Page:
        types = self._types()
        largest = sorted(types.items(), key=lambda item: -prod(item[1][0]) * item[1][1].itemsize)
        rows = [
            (name, show_shape(shape), f"{dtype}", size(prod(shape) * dtype.itemsize))
            for name, (shape, dtype) in largest[:_SHOWN]
        ]
        columns = (Column("variable"), Column("shape"), Column("dtype"), Column("size", right=True))
        left = len(largest) - len(rows)
        more = [f"and {several(left, 'smaller one')}"] if left else []
        return Page([Table(columns, rows, repr(self)), *more])


def values_in(scope: Scope, names: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Copy the values of these variables in a scope or its parents; skip those without."""
    slots = {name: scope.find_var(name) for name in names}
    return {
        name: np.array(slot.numpy())
        for name, slot in slots.items()
        if slot is not None and slot.is_initialized()
    }


def stack_in(scope: Scope, names: tuple[str, ...]) -> Stack | None:
    """Return the stack of these variables of a scope; None when it lacks one of them."""
    members = [scope.find_var(name) for name in names]
    present = [slot for slot in members if slot is not None]
    if len(present) < len(names):
        return None
    found = present[0].stacks.get(names)
    if found is None or any(a is not b for a, b in zip(found.members, present, strict=True)):
        found = present[0].stacks[names] = Stack(present)
    return found


_global_scope = Scope()


def global_scope() -> Scope:
    """Return the default scope of runs (paddle.static.global_scope)."""
    return _global_scope


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Make `scope` the global scope inside the block; always restored afterwards."""
    global _global_scope
    if not isinstance(scope, Scope):
        raise TypeError(f"scope_guard takes a Scope, got {type(scope).__name__}")
    saved, _global_scope = _global_scope, scope
    try:
        yield
    finally:
        _global_scope = saved
