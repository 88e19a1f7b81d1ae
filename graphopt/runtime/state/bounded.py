"""Bounded caches: what is made for programs, feeds and fetches, as much of it as memory shall hold.

All caches that grow with what scripts run are of this kind. Where one is not, a comment at its
place says what else bounds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """A dict of at most `most` entries; beyond them the one that was used least lately goes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def use(self, key: K) -> V | None:
        """The value of a key, which counts as used now; None when there is none."""
        try:
            self.move_to_end(key)
        except KeyError:
            return None
        return self.get(key)

    def keep(self, key: K, value: V) -> list[K]:
        """Set the value of a key; returns the keys that had to go for it."""
        self[key] = value
        self.move_to_end(key)
        return [self.popitem(last=False)[0] for _ in range(len(self) - self.most)]

    def find(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made when it is new."""
        found = self.use(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found
