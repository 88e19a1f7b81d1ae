"""Tables and pages: data of cells, rendered as text for terminals or as HTML for notebooks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from graphopt.display.terminal import WIDEST, has_colour, paint, width_of

Style = Literal["", "head", "good", "warn", "dim"]


class Cell(NamedTuple):
    """A text with a style: "good" for success, "warn" for a warning."""

    text: str
    style: Style = ""


@dataclass(frozen=True)
class Column:
    """A column: its title, and the alignment of its cells.

    A column that `wraps` leaves room to the others and continues on further lines; others are cut.
    """

    title: str = ""
    right: bool = False
    wraps: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; a column without any text is left out, unless `whole`."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    whole: bool = False

    @property
    def is_empty(self) -> bool:
        """True for a table without rows and title, which shows nothing."""
        return not self.title and not self.rows

    def text(self, width: int = WIDEST, *, colour: bool = False) -> str:
        """Render the table for a terminal, no line wider than `width`."""
        columns, rows = self._visible_columns()
        if not rows or not columns:
            return self.title
        widths = _widths(columns, rows, width)
        lines = [paint(self.title, "head") if colour else self.title] if self.title else []
        if any(column.title for column in columns):
            head = [Cell(column.title, "dim") for column in columns]
            lines += _lines(columns, head, widths, colour)
        for row in rows:
            lines += _lines(columns, row, widths, colour)
        return "\n".join(lines)

    def html(self) -> str:
        """Render the table as an element of a notebook's page."""
        columns, rows = self._visible_columns()
        if not rows or not columns:
            return f"<p>{escape(self.title)}</p>"
        sides = ["right" if column.right else "left" for column in columns]
        body = "".join(f"<tr>{_html_row('td', sides, row)}</tr>" for row in rows)
        titles = [Cell(column.title) for column in columns]
        head = f"<thead><tr>{_html_row('th', sides, titles)}</tr></thead>"
        caption = f"<caption{_CAPTION}>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}{head}<tbody>{body}</tbody></table>"

    def _visible_columns(self) -> tuple[list[Column], list[list[Cell]]]:
        """Select the columns with a text in some row, and their cells."""
        rows = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in r] for r in self.rows]
        shown = [
            i for i in range(len(self.columns)) if self.whole or any(row[i].text for row in rows)
        ]
        return [self.columns[i] for i in shown], [[row[i] for i in shown] for row in rows]


@dataclass(frozen=True)
class Page:
    """Lines and tables below each other, with an empty line between the parts.

    An object that is shown has one, and prints it: see `Shown`.
    """

    parts: Sequence[str | Table]

    def text(self, width: int = WIDEST, *, colour: bool = False) -> str:
        """Render the page for a terminal."""
        made = [
            part.text(width, colour=colour) if isinstance(part, Table) else _wrap_text(part, width)
            for part in self.parts
        ]
        return "\n\n".join(text for text in made if text)

    def html(self) -> str:
        """Render the page as HTML for a notebook, escaped."""
        parts = [
            part.html() if isinstance(part, Table) else f"<pre>{escape(part)}</pre>"
            for part in self.parts
            if part and not (isinstance(part, Table) and part.is_empty)
        ]
        return f"<div>{''.join(parts)}</div>"


class Shown(ABC):
    """Base of objects that print themselves; `page` builds their page."""

    @abstractmethod
    def page(self) -> Page:
        """Build the tables of this object."""

    def __str__(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        """Render the text at an interactive prompt, as wide as the terminal and in its colors."""
        return for_stream(self.page(), sys.stdout)

    def _repr_html_(self) -> str:
        return self.page().html()


def for_stream(page: Page | Table, stream: Any) -> str:
    """Render a page for a stream: as wide as its terminal, in color where it has colors."""
    return page.text(width_of(stream), colour=has_colour(stream))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Format columns as wide as their widest cell, left-aligned, for output that programs read."""
    columns = [Column(title) for title in head]
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return "  ".join(head)
    return Table(columns, cells, whole=True).text(sys.maxsize)


_GAP = 2
_LEAST = 16
_CAPTION = ' style="text-align:left;font-weight:bold"'
_HTML_STYLES = {
    "good": "color:#1a7f37",
    "warn": "color:#9a6700",
    "dim": "opacity:.65",
    "head": "font-weight:bold",
}


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Sequence[int]:
    """Compute widths of columns that fit: those that wrap shrink first, then the widest."""
    widths = [
        max(len(column.title), *(len(row[i].text) for row in rows))
        for i, column in enumerate(columns)
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    wrapping = [i for i, column in enumerate(columns) if column.wraps]
    for order in (wrapping, range(len(widths))):
        while excess > 0 and (wide := [i for i in order if widths[i] > _LEAST]):
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _lines(
    columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], colour: bool
) -> list[str]:
    """Format the lines of one row; text too long for a column that does not wrap is cut."""
    cells: list[list[str]] = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        if column.wraps:
            cells.append(wrap(cell.text, width, break_long_words=True) or [""])
        else:
            fits = len(cell.text) <= width
            cells.append([cell.text if fits else f"{cell.text[: width - 1]}…"])
    lines: list[str] = []
    for number in range(max(map(len, cells))):
        parts: list[str] = []
        for column, cell, texts, width in zip(columns, row, cells, widths, strict=True):
            text = texts[number] if number < len(texts) else ""
            room = " " * (width - len(text))
            shown = paint(text, cell.style) if colour else text
            parts.append(room + shown if column.right else shown + room)
        lines.append((" " * _GAP).join(parts).rstrip())
    return lines


def _html_row(tag: str, sides: Sequence[str], cells: Sequence[Cell]) -> str:
    found: list[str] = []
    for side, cell in zip(sides, cells, strict=True):
        whole = "white-space:nowrap;" if side == "right" else ""  # numbers do not wrap
        style = f"text-align:{side};{whole}{_HTML_STYLES.get(cell.style, '')}"
        found.append(f'<{tag} style="{style}">{escape(cell.text)}</{tag}>')
    return "".join(found)


def _wrap_text(text: str, width: int) -> str:
    """Wrap lines to the width of a terminal; further lines of a sentence are indented."""
    lines = [wrap(line, width, subsequent_indent="  ") or [""] for line in text.splitlines()]
    return "\n".join(part for several in lines for part in several)
