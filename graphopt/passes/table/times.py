"""The time of a compilation, part by part: parsing, the passes, and what JAX and XLA take.

A part is noted in the report by the code that does it, and passes have their time in its rows. The
rows of this module are what `explain`, its JSON and the page show. Nothing here measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphopt.display.units import milliseconds
from graphopt.passes.table.parts import LOAD, LOWER, PARSE, TRACE, XLA
from graphopt.passes.table.report import Report

PASSES = "passes"
_BEFORE, _AFTER = (PARSE,), (TRACE, LOWER, XLA, LOAD)


@dataclass(frozen=True)
class TimeRow:
    """A part of a compilation: its kind, the passes or the sizes that it is about, its seconds.

    Kinds are parse, passes, trace, lower, XLA, and load for an executable that was on disk.
    """

    kind: str
    of: str
    seconds: float


def time_rows(report: Report) -> list[TimeRow]:
    """The parts in their order; a sweep that several passes share is one row."""
    sweeps: dict[object, TimeRow] = {}
    for number, ran in enumerate(report.ran):
        key = ("sweep", ran.sweep) if ran.sweep else number
        row = sweeps.get(key)
        names = ran.pass_name if row is None else f"{row.of}, {ran.pass_name}"
        sweeps[key] = TimeRow(PASSES, names, ran.seconds)
    noted = [TimeRow(part.name, part.of, part.seconds) for part in report.parts]
    return [
        *(row for row in noted if row.kind in _BEFORE),
        *sweeps.values(),
        *(row for row in noted if row.kind in _AFTER),
    ]


def pass_seconds(report: Report) -> float:
    """The time of all passes; a sweep that several shared counts once."""
    return sum(row.seconds for row in time_rows(report) if row.kind == PASSES)


def by_kind(rows: Sequence[TimeRow]) -> dict[str, float]:
    """The seconds of each kind of part, in order."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.kind] = found.get(row.kind, 0.0) + row.seconds
    return found


def time_line(report: Report) -> str:
    """The sum and the kinds of parts in one line; empty where nothing was timed."""
    kinds = by_kind(time_rows(report))
    if not kinds:
        return ""
    head = "compile time" if kinds.keys() & {XLA, LOAD} else "compile time, XLA not yet run"
    parts = ", ".join(f"{kind} {milliseconds(seconds)}" for kind, seconds in kinds.items())
    return f"{head}: {milliseconds(sum(kinds.values()))} ms ({parts})"


def timed_as(report: Report, compiled: Report) -> Report:
    """A report with the times of another run of the same passes, which made what is run.

    A run that collects near misses and costs takes longer than the one before it.
    """
    names = [(ran.flag, ran.pass_name) for ran in report.ran]
    if names != [(ran.flag, ran.pass_name) for ran in compiled.ran]:
        return replace(report, parts=compiled.parts)
    pairs = zip(report.ran, compiled.ran, strict=True)
    ran = [replace(each, seconds=other.seconds) for each, other in pairs]
    return replace(report, ran=ran, parts=compiled.parts)
