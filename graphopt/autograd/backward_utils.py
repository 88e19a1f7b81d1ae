"""Mappings and sets of Variables by identity (paddle.autograd.backward_utils).

`==` between Variables appends an operator, so they cannot be keys of Python's mappings and sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSet
from typing import Generic, TypeVar

from graphopt.errors import OperandError
from graphopt.frontend.calls import publish
from graphopt.ir.program import Variable

Found = TypeVar("Found")
Key = Variable | None


class ValueWrapper:
    """A Variable or None as a key of Python's own mappings (ValueWrapper).

    Raises TypeError for another type.
    """

    def __init__(self, value: Key | ValueWrapper) -> None:
        self._value = value._value if isinstance(value, ValueWrapper) else value
        if self._value is not None and not isinstance(self._value, Variable):
            raise OperandError(
                "ValueWrapper(): the argument 'value' must be a Variable or None, found "
                f"{type(value).__name__}"
            )

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueWrapper) and self._value is other._value


class ValueDict(MutableMapping[Key, Found], Generic[Found]):
    """A mapping from Variables, or None, to any values (ValueDict).

    `d[key]` of an absent key makes an entry by `default_factory`, and raises KeyError without one.
    A key of another type raises TypeError.
    """

    def __init__(
        self,
        iter: Mapping[Key, Found] | None = None,
        *,
        default_factory: Callable[[], Found] | None = None,
    ) -> None:
        self._items: dict[ValueWrapper, Found] = {}
        self._default_factory = default_factory
        self.update(iter or {})

    def copy(self) -> ValueDict[Found]:
        """Copy the mapping, but not its keys and values."""
        return ValueDict(self, default_factory=self._default_factory)

    def get(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: Key, default: Found | None = None
    ) -> Found | None:
        """Return the value of a key, or `default` if there is none."""
        return self._items.get(ValueWrapper(key), default)

    def __getitem__(self, key: Key) -> Found:
        if key not in self:
            if self._default_factory is None:
                raise KeyError(f"{key} is not in ValueDict")
            self[key] = self._default_factory()
        return self._items[ValueWrapper(key)]

    def __setitem__(self, key: Key, value: Found) -> None:
        self._items[ValueWrapper(key)] = value

    def __delitem__(self, key: Key) -> None:
        if self._items.pop(ValueWrapper(key), self) is self:
            raise KeyError(f"{key} is not in ValueDict")

    def __contains__(self, key: object) -> bool:
        return ValueWrapper(key) in self._items  # pyright: ignore[reportArgumentType]

    def __iter__(self) -> Iterator[Key]:
        return (key._value for key in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"ValueDict({', '.join(f'{key}: {value}' for key, value in self.items())})"


class ValueSet(MutableSet[Key]):
    """A set of Variables, or None (ValueSet); another type raises TypeError."""

    def __init__(self, iter: Iterable[Key | ValueWrapper] | None = None) -> None:
        self._set = {ValueWrapper(value) for value in iter or ()}

    def copy(self) -> ValueSet:
        """Copy the set, but not its Variables."""
        return ValueSet(self)

    def add(self, value: Key) -> None:
        """Add a Variable to the set."""
        self._set.add(ValueWrapper(value))

    def update(self, other: Iterable[Key]) -> None:
        """Add several Variables to the set."""
        self._set.update(ValueSet(other)._set)

    def discard(self, value: Key) -> None:
        """Remove a Variable from the set if it is an element."""
        self._set.discard(ValueWrapper(value))

    def __contains__(self, value: object) -> bool:
        return ValueWrapper(value) in self._set  # pyright: ignore[reportArgumentType]

    def __iter__(self) -> Iterator[Key]:
        return (value._value for value in self._set)

    def __len__(self) -> int:
        return len(self._set)

    def __repr__(self) -> str:
        return f"ValueSet({', '.join(map(repr, self))})"


publish(globals(), __name__)
