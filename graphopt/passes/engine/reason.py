"""The reason why a rule declined."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """The reason why a rule declined: a stable name and a sentence about this very case.

    `fix` is the smallest change of the program that would help; empty where none is known.
    """

    name: str
    text: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
