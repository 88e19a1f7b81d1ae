"""Scopes: where the values of persistable variables live between runs.

The runtime owns the arrays: they may be donated to the next step, so a read always gives a copy
and a write replaces the slot. Paddle pages: paddle.static.global_scope, scope_guard.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.errors import ScopeError
from graphopt.runtime.layout import AS_IT_IS, Layout
from graphopt.runtime.stacks import Item, Stack

Shape = tuple[int, ...]


def in_parts(value: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """The elements in `count` rows of one length, with zeros behind the last one."""
    length = -(-value.size // count)
    flat = np.zeros(count * length, value.dtype)
    flat[: value.size] = value.reshape(-1)
    return flat.reshape(count, length)


def _of_this_process(value: Any) -> np.ndarray[Any, Any]:
    """What replicas on this process's devices hold: their values, or all parts of one."""
    shards = sorted(value.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([shard.data for shard in shards])


def joined_parts(parts: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """What `in_parts` cut, in its shape again."""
    return parts.reshape(-1)[: math.prod(shape)].reshape(shape)


class Slot:
    """A named value: a NumPy or JAX array, or None before its first write.

    `layout` says how the array holds the value, and `home` identifies the devices that it is on.
    `copy` is what another program that only reads the variable made of the value for its own
    devices: (home, layout, array). The value of a variable that lies in a stack with others is an
    `Item` of it; `stacks` are the stacks that begin with this variable, by the names in them.
    """

    __slots__ = ("copy", "home", "layout", "name", "stacks", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.stacks: dict[tuple[str, ...], Stack] = {}
        self.value: Any = None
        self.put(None)

    def put(self, value: Any, *, layout: Layout = AS_IT_IS, home: Any = None) -> None:
        """Replace the value; a variable that lies in a stack leaves it."""
        if type(self.value) is Item:
            self.value.stack.lose()
        self.value, self.layout, self.home = value, layout, home
        self.copy: tuple[Any, Layout, Any] = (None, AS_IT_IS, None)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the value; ScopeError when there is none."""
        if self.value is None:
            raise ScopeError(f"variable '{self.name}' has no value; run the startup_program first")
        value = self.value
        if type(value) is Item:
            return value.numpy()
        replicas, whole, order = self.layout
        if replicas and not getattr(value, "is_fully_addressable", True):
            value = _of_this_process(value)
        value = np.array(value)
        if whole is not None:
            return joined_parts(value, whole)
        value = value[0] if replicas else value
        return np.ascontiguousarray(value.transpose(np.argsort(order))) if order else value

    def get_tensor(self) -> Tensor:
        """A view through which scripts read and write the value."""
        return Tensor(self)

    def is_initialized(self) -> bool:
        """True once the variable has a value."""
        return self.value is not None


class Tensor:
    """What `scope.find_var(name).get_tensor()` gives: read with `np.array(t)`, write with `set`."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def set(self, array: Any, place: Any = None) -> None:
        """Replace the value by a copy of `array`; every device sees it from the next run on."""
        self._slot.put(np.array(array))

    def shape(self) -> list[int]:
        """The dimensions."""
        return list(self._slot.numpy().shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the value."""
        return self._slot.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self._slot.numpy()
        return value if dtype is None else value.astype(dtype)

    def _is_initialized(self) -> bool:
        return self._slot.is_initialized()

    def __repr__(self) -> str:
        slot = self._slot
        plain = not slot.layout.order and slot.layout.whole is None
        plain = plain and type(slot.value) is not Item
        return repr(slot.value if plain else slot.numpy())


class Scope:
    """A map from names to values; lookups go on to the parents.

    `bound` is for executables: the slots that they use here, by the number of the executable.
    `prepared` is for what programs make of parameters: the arrays it is made of, and it.
    """

    changes: ClassVar[int] = 0
    """How many variables all scopes have made: while it stays, names mean the same slots."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self.bound: dict[int, tuple[int, Any]] = {}
        self.prepared: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()
        self._slots: dict[str, Slot] = {}
        self._kids: list[Scope] = []

    def var(self, name: str) -> Slot:
        """The variable of this very scope, made when it does not exist."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = Slot(name)
            Scope.changes += 1
        return slot

    def find_var(self, name: str) -> Slot | None:
        """The variable here or in the nearest parent that has it; None when nobody has."""
        scope: Scope | None = self
        while scope is not None:
            slot = scope._slots.get(name)
            if slot is not None:
                return slot
            scope = scope._parent
        return None

    def new_scope(self) -> Scope:
        """A scope that sees this one's variables."""
        kid = Scope(self)
        self._kids.append(kid)
        return kid

    def drop_kids(self) -> None:
        """Forget the scopes made by `new_scope`."""
        self._kids.clear()


_global_scope = Scope()


def global_scope() -> Scope:
    """The scope that runs use when none is given."""
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
