"""Variables that lie in one array, along a new first axis: a step passes on one array, not many.

A stack takes the values of its variables over when a program wants them so. From then on they are
items of it, until they are written one by one: then they leave it, and the next program that wants
the stack makes it anew. The latest value of a variable is always in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphopt.runtime.layout import AS_IT_IS, Layout

if TYPE_CHECKING:
    from graphopt.runtime.scope import Scope, Slot


class Item(NamedTuple):
    """The value of a variable that lies in a stack."""

    stack: Stack
    at: int

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the value."""
        return np.array(self.stack.first()[self.at])


class Stack:
    """Several variables as one; for executables it is a slot like that of one variable.

    `home` is None when its array is not, or no longer, what the variables are. `items` are single
    variables as programs that only read them have them on their devices, by (home, index).
    """

    __slots__ = ("copy", "held", "home", "items", "layout", "members", "name", "value")

    def __init__(self, members: Sequence[Slot]) -> None:
        self.name = f"{members[0].name} .. {members[-1].name}"
        self.members = tuple(members)
        self.value: Any = None
        self.home: Any = None
        self.layout = AS_IT_IS
        self.held = 0
        self._changed()

    def _changed(self) -> None:
        self.copy: tuple[Any, Layout, Any] = (None, AS_IT_IS, None)
        self.items: dict[tuple[Any, int], Any] = {}

    def first(self) -> np.ndarray[Any, Any]:
        """The array as NumPy sees it, that of the first replica; of use until the next step."""
        value = np.asarray(self.value)
        return value[0] if self.layout.replicas else value

    def put(self, value: Any, *, layout: Layout, home: Any) -> None:
        """Replace the values of all variables."""
        if self.home is None:
            for index, slot in enumerate(self.members):
                slot.put(Item(self, index))
            self.held = len(self.members)
        self.value, self.layout, self.home = value, layout, home
        self._changed()

    def lose(self) -> None:
        """One of the variables has a value of its own now; the others can still be read here."""
        self.home, self.copy = None, (None, AS_IT_IS, None)
        self.held -= 1
        if not self.held:
            self.value = None
            self._changed()

    def is_initialized(self) -> bool:
        """True once all variables have values."""
        return all(slot.is_initialized() for slot in self.members)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values of all variables, which have one shape and dtype."""
        if self.home is not None:
            return np.array(self.first())
        return np.stack([slot.numpy() for slot in self.members])


def stack_in(scope: Scope, names: tuple[str, ...]) -> Stack | None:
    """The stack of these variables of a scope; None when it lacks one of them."""
    members = [scope.find_var(name) for name in names]
    present = [slot for slot in members if slot is not None]
    if len(present) < len(names):
        return None
    found = present[0].stacks.get(names)
    if found is None or any(a is not b for a, b in zip(found.members, present, strict=True)):
        found = present[0].stacks[names] = Stack(present)
    return found
