"""Numbers in few characters: bytes, counts, shapes, times."""

from __future__ import annotations

import re
from collections.abc import Sequence


def size(count: int) -> str:
    """Format a number of bytes with a unit."""
    return f"{count} bytes" if abs(count) < 1000 else _scale_units(count, ("kB", "MB", "GB", "TB"))


def bytes_of(text: str) -> int:
    """Parse a number of bytes such as `8GB`, `512 MB`; ValueError for another text."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)B?\s*", text)
    if found is None:
        raise ValueError(f"expected a number of bytes such as 8GB or 512MB, found {text!r}")
    return round(float(found[1]) * 1000 ** ("", *"kMGT").index(found[2]))


def quantity(count: int) -> str:
    """Format a number with a prefix by thousands, for a unit that follows: `4.1 G`."""
    return f"{count} " if abs(count) < 1000 else _scale_units(count, ("k", "M", "G", "T", "P"))


def _scale_units(count: int, units: Sequence[str]) -> str:
    amount, last = float(count), units[-1]
    for unit in units:
        amount /= 1000
        if abs(amount) < 999.95 or unit == last:
            return f"{amount:.1f} {unit}"
    raise AssertionError


def milliseconds(seconds: float) -> str:
    """Format a time in milliseconds, without the unit."""
    return f"{seconds * 1e3:.1f}"


def times(number: int) -> str:
    """Format a number of times in words."""
    return "once" if number == 1 else f"{number} times"


def several(number: int, word: str, words: str = "") -> str:
    """Format a number with its noun, as `2 ops`; `words` is an irregular plural."""
    return f"{number} {word if number == 1 else words or f'{word}s'}"


def shape(dims: Sequence[int]) -> str:
    """Format a shape, with ? for an unknown dimension."""
    return f"[{', '.join('?' if dim < 0 else str(dim) for dim in dims)}]"
