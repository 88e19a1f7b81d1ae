"""Python functions that operators call, by number: a program holds the number.

Separate from the dialect, which a script that builds a program need not import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_functions: list[Callable[..., Any]] = []


def register(function: Callable[..., Any]) -> int:
    """Register a function for the life of the process, and return its number."""
    _functions.append(function)
    return len(_functions) - 1


def find(number: int) -> Callable[..., Any] | None:
    """Find the function with this number; None for a number of another process."""
    return _functions[number] if 0 <= number < len(_functions) else None
