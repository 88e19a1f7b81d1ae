"""The numbers that an op may look up or divide by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IndexBound:
    """Numbers in [low, high), or the one that is `allowed`; `reader` is the op that reads them.

    One that `divides` holds all numbers but 0.
    """

    low: int
    high: int
    allowed: int | None
    reader: str
    divides: bool = False

    @property
    def division(self) -> str:
        """The error of a 0 that divides; the first words are Paddle's."""
        return f"Integer division by zero encountered in {self.reader}"
