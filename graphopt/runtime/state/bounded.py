"""Bounded caches of objects made for programs, feeds and fetches, limited to save memory.

All caches that grow with the scripts that run are of this kind. An exception has a comment on what
else bounds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """A dict of at most `most` entries, which evicts the least recently used."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def use(self, key: K) -> V | None:
        """Return the value of a key and mark it as used; None when there is none."""
        try:
            self.move_to_end(key)
        except KeyError:
            return None
        return self.get(key)

    def keep(self, key: K, value: V) -> list[K]:
        """Set the value of a key; return the evicted keys."""
        self[key] = value
        self.move_to_end(key)
        return [self.popitem(last=False)[0] for _ in range(len(self) - self.most)]

    def find(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, and make it when it is new."""
        found = self.use(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found
