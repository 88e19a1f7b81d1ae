"""Differences of two trainers' descriptions of a step or of themselves, in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# How many differences a message lists.
SHOWN = 8

Description = Mapping[str, Any]


class Described:
    """A description, and its digest, which is equal for equal ones."""

    def __init__(self, parts: Description) -> None:
        self.parts = parts
        text = json.dumps(parts, sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:32]


def differences(first: Description, second: Description, names: tuple[str, str]) -> str:
    """The differences, separated by semicolons, "" for none; `names` says whose they are."""
    keys = [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]
    lines = [
        f"{key}: {_value_text(first.get(key))} on {names[0]}, "
        f"{_value_text(second.get(key))} on {names[1]}"
        for key in keys[:SHOWN]
    ]
    return "; ".join(lines + ([f"and {len(keys) - SHOWN} more"] if len(keys) > SHOWN else []))


def _value_text(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
