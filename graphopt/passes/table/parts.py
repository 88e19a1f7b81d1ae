"""The parts of a compilation beside the passes, with their times."""

from __future__ import annotations

from dataclasses import dataclass

PARSE, TRACE, LOWER, XLA, LOAD = "parse", "trace", "lower", "XLA", "load"


@dataclass(frozen=True)
class CompilationPart:
    """A part of a compilation other than a pass, and the form or the feeds that it is of."""

    name: str
    seconds: float
    of: str = ""
