"""Differences of two trainers' descriptions of a step or of themselves, in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# How many differences of one kind a message lists.
SHOWN = 4

Description = Mapping[str, Any]


class Described:
    """A description, and its digest, which is equal for equal ones."""

    def __init__(self, parts: Description) -> None:
        self.parts = parts
        text = json.dumps(parts, sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:32]


def differences(first: Description, second: Description, names: tuple[str, str]) -> list[str]:
    """A line for each part in which they differ; `names` says whose they are."""
    lines: list[str] = []
    for part in dict.fromkeys([*first, *second]):
        one, other = first.get(part), second.get(part)
        if one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            lines += _entries(part, one, other, names)
        else:
            lines.append(_line(part, one, other, names))
    return lines


def _entries(part: str, one: Description, other: Description, names: tuple[str, str]) -> list[str]:
    keys = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
    lines = [_line(f"{part} {key}", one.get(key), other.get(key), names) for key in keys[:SHOWN]]
    if len(keys) > SHOWN:
        lines.append(f"and {len(keys) - SHOWN} more of {part}")
    return lines


def _line(what: str, one: Any, other: Any, names: tuple[str, str]) -> str:
    return f"{what}: {_shown(one)} on {names[0]}, {_shown(other)} on {names[1]}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
