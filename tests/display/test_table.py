"""Tables: aligned columns within a width, wrapped or cut; colors for terminals only; HTML."""

from __future__ import annotations

import io

import pytest

from graphopt.display.table import Cell, Column, Page, Shown, Table, for_stream, table
from graphopt.display.units import quantity, size

ROWS = Table(
    (Column("name"), Column("n", right=True), Column("why", wraps=True), Column("nothing")),
    [("a", Cell("1", "good"), "short", ""), ("longer", "23", "a sentence of several words", "")],
    "title",
)


def test_columns_are_aligned() -> None:
    """A column is as wide as its widest cell; a column without text is left out."""
    assert ROWS.text().splitlines() == [
        "title",
        "name     n  why",
        "a        1  short",
        "longer  23  a sentence of several words",
    ]


def test_a_narrow_terminal() -> None:
    """A column that wraps is narrowed first, then cells are cut; no line is wider."""
    lines = ROWS.text(30).splitlines()
    assert lines[3:] == ["longer  23  a sentence of", "            several words"]
    cut = Table((Column(), Column()), [("x" * 50, "y" * 20)]).text(40)
    assert cut == f"{'x' * 18}…  {'y' * 18}…"


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files get no colors; NO_COLOR and a dumb terminal switch them off."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[32m1\x1b[0m" in for_stream(ROWS, Terminal())
    assert "\x1b" not in for_stream(ROWS, io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in for_stream(ROWS, Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in for_stream(ROWS, Terminal())


def test_objects_show_themselves() -> None:
    """An object is text by str and repr, and HTML with its markup escaped."""

    class Thing(Shown):
        def page(self) -> Page:
            return Page(["a <b>", Table((Column("c<d"),), [("e&f",)])])

    assert str(Thing()) == repr(Thing()) == "a <b>\n\nc<d\ne&f"
    found = Thing()._repr_html_()
    assert "a &lt;b&gt;" in found and "c&lt;d" in found and "e&amp;f" in found


def test_plain_tables_keep_their_columns() -> None:
    """Tables of commands keep empty columns, as programs may read the output."""
    assert table(("a", "b"), [("1", ""), ("22", "")]) == "a   b\n1\n22"
    assert table(("a", "b"), []) == "a  b"


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 bytes"), (-1500, "-1.5 kB"), (999_999, "1.0 MB"), (3 << 40, "3.3 TB")],
)
def test_sizes(number: int, words: str) -> None:
    """Sizes have three digits at most, and a unit."""
    assert size(number) == words
    assert quantity(4_100_000_000) + "FLOP" == "4.1 GFLOP"


def test_nothing_is_no_element() -> None:
    """Parts of a page without content are left out."""
    assert Page(["", Table((), ()), "a"]).html() == "<div><pre>a</pre></div>"
    assert Page(["", Table((), ()), "a"]).text() == "a"


def test_numbers_stay_in_one_line() -> None:
    """Numbers do not wrap on a page that is narrower than its table."""
    table = Table((Column("flag", wraps=True), Column("ops", right=True)), [["a flag", "41 -> 38"]])
    assert '<td style="text-align:right;white-space:nowrap;">41 -&gt; 38</td>' in table.html()
    assert '<td style="text-align:left;">a flag</td>' in table.html()
