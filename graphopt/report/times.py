"""The time of a compilation as a bar with a table: a segment and a row for each part."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from graphopt.display.table import Column, Table
from graphopt.display.units import milliseconds, several
from graphopt.passes.table.report import Report
from graphopt.passes.table.times import PASSES, TimeRow, by_kind, time_line, time_rows

# more rows of a kind, of programs that were compiled for many sizes, are one row
_MOST = 6


def time_bar(report: Report) -> str:
    """The kinds of parts side by side, each as wide as its share; empty without times."""
    kinds = by_kind(time_rows(report))
    if not kinds:
        return ""
    segments = [
        f'<i class="{escape(kind)}" style="flex-grow:{seconds * 1e6:.0f}" '
        f'title="{escape(_words(kind, seconds))}"></i>'
        for kind, seconds in kinds.items()
    ]
    names = [
        f'<span><i class="{escape(kind)}"></i>{escape(_words(kind, seconds))}</span>'
        for kind, seconds in kinds.items()
    ]
    line = escape(time_line(report))
    head = f"<h2>{line.partition(' (')[0]}</h2>"
    bar = f'<div class="bar" role="img" aria-label="{line}">{"".join(segments)}</div>'
    return f'<div class="times">{head}{bar}<div class="names">{"".join(names)}</div></div>'


def time_table(report: Report) -> Table:
    """A row for each part; fusions that share a sweep share a row."""
    rows = [
        [row.kind, row.of, milliseconds(row.seconds)]
        for kind in by_kind(time_rows(report))
        for row in _few([row for row in time_rows(report) if row.kind == kind])
    ]
    total = sum(by_kind(time_rows(report)).values())
    columns = (Column("part"), Column("of", wraps=True), Column("ms", right=True))
    return Table(columns, [*rows, ["in all", "", milliseconds(total)]], "compile time")


def _few(rows: Sequence[TimeRow]) -> Sequence[TimeRow]:
    """The rows of one kind; many sizes are one row."""
    if len(rows) <= _MOST or rows[0].kind == PASSES:
        return rows
    return [TimeRow(rows[0].kind, several(len(rows), "size"), sum(row.seconds for row in rows))]


def _words(kind: str, seconds: float) -> str:
    return f"{kind} {milliseconds(seconds)} ms"
