"""The loaders that belong to a program, as the runtime sees them."""

from __future__ import annotations

from typing import Any, Protocol


class FeedSource(Protocol):
    """Gives a program the batches of some of its variables, one after the other."""

    names: tuple[str, ...]

    def read(self, count: int) -> list[dict[str, Any]]:
        """The next batches, one for each of `count` devices; EOFException at the end."""
        ...
