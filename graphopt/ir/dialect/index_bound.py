"""The numbers that an op may look up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IndexBound:
    """Numbers in [low, high), or the one that is `allowed`; `reader` is the op that reads them."""

    low: int
    high: int
    allowed: int | None
    reader: str
