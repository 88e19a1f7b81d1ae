"""Bounds of the integers that an op looks up or divides by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IndexBound:
    """Integers in [low, high), or equal to `allowed`; `reader` is the op that reads them.

    A bound that `divides` admits all integers but 0.
    """

    low: int
    high: int
    allowed: int | None
    reader: str
    divides: bool = False

    @property
    def division(self) -> str:
        """The error message of a division by 0; its first words are Paddle's."""
        return f"Integer division by zero encountered in {self.reader}"
