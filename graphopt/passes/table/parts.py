"""The parts of a compilation other than the passes, and of its report, with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PARSE, TRACE, LOWER, XLA, LOAD = "parse", "trace", "lower", "XLA", "load"
EXPLAIN = "explain"
"""The part of a report, beside the compilation: it looks for near misses and counts costs."""

REQUESTED = "requested"
"""In place of a part: the feeds for which an executable was needed, and why."""


@dataclass(frozen=True)
class CompilationPart:
    """A part of a compilation other than a pass, and the form or the feeds that it applies to."""

    name: str
    seconds: float
    of: str = ""
    why: str = ""
    fix: str = ""
    """Of what was requested the reason, and what to do so that it is not needed again."""


def requested_for(parts: Sequence[CompilationPart], sizes: str) -> list[CompilationPart]:
    """List the requests for these sizes of the feeds."""
    return [part for part in parts if part.name == REQUESTED and part.of == sizes]
