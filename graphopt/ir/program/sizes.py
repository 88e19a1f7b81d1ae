"""The sizes of a variable, which scripts of all releases of Paddle compare and join."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload


class Sizes(tuple[int, ...]):
    """A tuple of sizes that equals a list of the same sizes, and can be concatenated with a list.

    `Variable.shape` is a tuple up to Paddle 2.6, and a list from 3.0 on.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Sizes:
        return super().__new__(cls, (int(size) for size in sizes))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            return [*self] == other
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sizes: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Sizes:
        if isinstance(index, slice):
            return Sizes([*self][index])
        return super().__getitem__(index)
