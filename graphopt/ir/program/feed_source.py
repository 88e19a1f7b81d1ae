"""The protocol of loaders that belong to a program, as the runtime uses them."""

from __future__ import annotations

from typing import Any, Protocol


class FeedSource(Protocol):
    """Gives a program the batches of some of its variables, one after another."""

    names: tuple[str, ...]

    def read(self, count: int) -> list[dict[str, Any]]:
        """Return the next batches, one for each device; raise EOFException at the end."""
        ...
