"""The time of a compilation as bars with a table: a segment and a row for each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from graphopt.display.table import Column, Table
from graphopt.display.units import milliseconds, several
from graphopt.passes.table.parts import EXPLAIN, PARSE, REQUESTED
from graphopt.passes.table.report import PASSES, Report, TimeRow, by_kind, time_line, time_rows

# more rows of a kind, from programs compiled for many sizes, become one row
_MOST = 6


def time_bar(report: Report) -> str:
    """Render the parts side by side, each as wide as its share, and below the passes alone.

    Each pass has its segment, and its name in the tooltip. Empty without times.
    """
    rows = compile_rows(report)
    kinds = by_kind(rows)
    if not kinds:
        return ""
    passes = [row for row in rows if row.kind == PASSES and row.seconds]
    groups = [
        (kind, passes if kind == PASSES else [TimeRow(kind, "", seconds)])
        for kind, seconds in kinds.items()
    ]
    line = escape(time_line(report))
    parts = [f"<h2>{line.partition(' (')[0]}</h2>", _bar(line, groups), _names(kinds.items())]
    if len(passes) > 1:
        head = escape(_words(PASSES, kinds[PASSES]))
        slowest = sorted(passes, key=lambda row: -row.seconds)[:_MOST]
        named = [(_shades(passes)[row], row.of, row.seconds) for row in slowest]
        parts += [f"<h2>{head}</h2>", _bar(head, [(PASSES, passes)]), _names_of_passes(named)]
    return f'<div class="times">{"".join(parts)}</div>'


def compile_rows(report: Report) -> list[TimeRow]:
    """List the parts of the compilation, without the time that its report takes."""
    return [row for row in time_rows(report) if row.kind != EXPLAIN]


def compilations(report: Report) -> list[dict[str, Any]]:
    """List the executables that runs of a program needed: their feeds, reasons and times.

    The first one includes parsing and the passes.
    """
    found: list[dict[str, Any]] = []
    rows = compile_rows(report)
    for part in (part for part in report.parts if part.name == REQUESTED):
        own = [row for row in rows if row.of == part.of or row.of.startswith(f"{part.of}, ")]
        if not found:
            own += [row for row in rows if row.kind in (PARSE, PASSES)]
        seconds = {kind: float(f"{value:.4g}") for kind, value in by_kind(own).items()}
        found.append({"why": part.why, "fix": part.fix, "feeds": part.of, "seconds": seconds})
    return found


def _bar(label: str, groups: Sequence[tuple[str, Sequence[TimeRow]]]) -> str:
    """Render segments as wide as their shares; a group has one color in different shades."""
    shown: list[str] = []
    for kind, rows in groups:
        shades = _shades(rows)
        whole = sum(row.seconds for row in rows)
        segments = "".join(
            f'<i class="{escape(kind)}" style="flex-grow:{row.seconds * 1e6:.0f};'
            f'--shade:{shades[row]}%" title="{escape(_words(row.of or kind, row.seconds))}"></i>'
            for row in rows
        )
        shown.append(f'<span style="flex-grow:{whole * 1e6:.0f}">{segments}</span>')
    return f'<div class="bar" role="img" aria-label="{label}">{"".join(shown)}</div>'


def _shades(rows: Sequence[TimeRow]) -> dict[TimeRow, int]:
    """Choose the percentage of its color for each segment: neighbors differ."""
    return {row: (100, 55, 78)[number % 3] for number, row in enumerate(rows)}


def _names(kinds: Iterable[tuple[str, float]]) -> str:
    names = [
        f'<span><i class="{escape(kind)}"></i>{escape(_words(kind, seconds))}</span>'
        for kind, seconds in kinds
    ]
    return f'<div class="names">{"".join(names)}</div>'


def _names_of_passes(named: Iterable[tuple[int, str, float]]) -> str:
    names = [
        f'<span><i class="{PASSES}" style="--shade:{shade}%"></i>'
        f"{escape(_words(of, seconds))}</span>"
        for shade, of, seconds in named
    ]
    return f'<div class="names">{"".join(names)}</div>'


def time_table(report: Report) -> Table:
    """Build a table with a row for each part."""
    found = compile_rows(report)
    rows = [
        [row.kind, row.of, milliseconds(row.seconds)]
        for kind in by_kind(found)
        for row in _few([row for row in found if row.kind == kind])
    ]
    total = sum(by_kind(found).values())
    columns = (Column("part"), Column("of", wraps=True), Column("ms", right=True))
    return Table(columns, [*rows, ["total", "", milliseconds(total)]], "compile time")


def _few(rows: Sequence[TimeRow]) -> Sequence[TimeRow]:
    """Reduce the rows of one kind; many sizes become one row."""
    if len(rows) <= _MOST or rows[0].kind == PASSES:
        return rows
    return [TimeRow(rows[0].kind, several(len(rows), "size"), sum(row.seconds for row in rows))]


def _words(kind: str, seconds: float) -> str:
    return f"{kind} {milliseconds(seconds)} ms"
