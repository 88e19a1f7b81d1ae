"""The parts of a compilation other than the passes, and of its report, with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PARSE, TRACE, LOWER, XLA, LOAD = "parse", "trace", "lower", "XLA", "load"
EXPLAIN = "explain"
"""The part that only the report needs: the search for near misses and the cost counts."""

REQUESTED = "requested"
"""In place of a part: feeds that required an executable, and why."""


@dataclass(frozen=True)
class CompilationPart:
    """A part of a compilation other than a pass, and the form or the feeds that it applies to."""

    name: str
    seconds: float
    of: str = ""
    why: str = ""
    fix: str = ""
    """For a request: `why` the executable was needed, and the `fix` that avoids it."""


def requested_for(parts: Sequence[CompilationPart], sizes: str) -> list[CompilationPart]:
    """List the requests for these sizes of the feeds."""
    return [part for part in parts if part.name == REQUESTED and part.of == sizes]
