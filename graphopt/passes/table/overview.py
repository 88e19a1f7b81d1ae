"""A report on one screen: a table of passes, the kinds of refusals, and the layers and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from graphopt.display.table import Cell, Column, Page, Table
from graphopt.display.units import milliseconds, quantity, several, size
from graphopt.passes.engine.blocks import LAYER, Fused
from graphopt.passes.engine.costs import Cost
from graphopt.passes.table.report import Report
from graphopt.passes.table.rows import (
    AUTOMATIC,
    BlockRow,
    PassRow,
    RefusalRow,
    block_rows,
    pass_rows,
    refusal_rows,
)
from graphopt.passes.table.times import pass_seconds, time_line

_MOST_LINES = 4
_MOST_REFUSALS = 10
_MOST_BLOCKS = 12
_SHORT = 60


def overview(report: Report, head: Sequence[str], notes: Sequence[str]) -> Page:
    """The page of a report: first `head`, last `notes`."""
    rows = [row for row in pass_rows(report) if row.fired or row.asked or _is_refused(row, report)]
    return Page(
        [
            "\n".join(filter(None, [*head, *_cost_line(report), time_line(report)])),
            _pass_table(rows, report),
            _traffic_table(report),
            _refusal_table(
                refusal_rows(report),
                {row.pass_name for row in rows if row.asked},
                {row.pass_name for row in rows if row.asked and not row.fired},
            ),
            _block_table(block_rows(report)),
            "\n".join(notes),
        ]
    )


def _is_refused(row: PassRow, report: Report) -> bool:
    """True for the pass of a flag that is on by default and that declined something."""
    return row.flag not in AUTOMATIC and bool(report.declined(row.pass_name))


def _cost_line(report: Report) -> list[str]:
    """The cost of one call before the passes, where it was counted."""
    cost = report.cost_before
    if not report.detailed:
        return []
    state = f"state {size(cost.state_bytes)} in {several(cost.state_arrays, 'array')}"
    work = f"traffic {size(cost.traffic)}, {quantity(cost.flops)}FLOP"
    return [f"before, unknown sizes as 1: {work} forward; {state}"]


# -- passes ----------------------------------------------------------------------------------------

_PASS_COLUMNS = (
    Column("flag or pass"),
    Column("fired", right=True),
    Column("ops", right=True),
    Column("traffic", right=True),
    Column("state", right=True),
    Column("FLOPs", right=True),
    Column("step ms", right=True),
    Column("pass ms", right=True),
)


def _pass_table(rows: Sequence[PassRow], report: Report) -> Table:
    """The rows of the passes, and what all of them gained."""
    ops = f"{report.ops_before} -> {report.ops_after}"
    saved = report.cost_before - report.cost_after
    step = "" if report.measured is None else f"{report.measured.step_ms:.2f}"
    total = ["in all", "", ops, *_gains(saved), step, milliseconds(pass_seconds(report))]
    return Table(_PASS_COLUMNS, [*map(_pass_cells, rows), [Cell(text, "dim") for text in total]])


def _pass_cells(row: PassRow) -> list[str | Cell]:
    fired = f"{row.fired} of {row.candidates}"
    style = "good" if row.fired else "warn" if row.asked else "dim"
    ops = f"{row.ops_before} -> {row.ops_after}" if row.ops_before != row.ops_after else ""
    time = '"' if row.seconds is None else milliseconds(row.seconds)
    gained = "" if row.gained_ms is None else f"{-row.gained_ms:+.2f}"
    return [row.name, Cell(fired, style), ops, *_gains(row.saved), gained, time]


def _gains(saved: Cost) -> list[str]:
    """The changes of traffic, state and FLOPs, as signed numbers; empty where nothing changed."""
    if saved.state_bytes:
        state = _signed(size(-saved.state_bytes))
    else:
        state = f"{-saved.state_arrays:+} arrays" if saved.state_arrays else ""
    return [
        _signed(size(-saved.traffic)) if saved.traffic else "",
        state,
        _signed(quantity(-saved.flops)) if saved.flops else "",
    ]


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"


# -- collectives -----------------------------------------------------------------------------------

_TRAFFIC_COLUMNS = (
    Column("after"),
    Column("op"),
    Column("count", right=True),
    Column("payload", right=True),
    Column("sent by a device", right=True),
)


def _traffic_table(report: Report) -> Table:
    """The collectives of a step after each step of the passes that changed them."""
    rows = [
        [each.after, found.op, str(found.count), size(found.payload), size(found.sent)]
        for each in report.traffic
        for found in each.collectives
    ]
    ranks = report.context.ranks
    return Table(
        _TRAFFIC_COLUMNS, rows, f"collectives of a step on {ranks} devices" if rows else ""
    )


# -- refusals --------------------------------------------------------------------------------------

_REFUSAL_COLUMNS = (Column(right=True), Column(), Column(wraps=True), Column())


def _refusal_table(rows: Sequence[RefusalRow], asked: set[str], idle: set[str]) -> Table:
    """A row for each kind; of near misses those of requested passes.

    Patterns that another pass took are among them where the requested one is `idle`.
    """
    shown = [
        row for row in rows if not row.near or row.pass_name in (idle if row.is_had else asked)
    ]
    cells: list[list[str | Cell]] = []
    for row in shown[:_MOST_REFUSALS]:
        text = row.text if row.near else f"{row.kind}: {row.text}"
        edit = f". Edit: {row.fix}" if row.fix else ""
        count = Cell(str(row.count), "warn" if row.asked and not row.near else "")
        cells.append([count, row.pass_name, f"{text}{edit}", short_lines(row.lines)])
    left = shown[_MOST_REFUSALS:]
    if left:
        count = str(sum(row.count for row in left))
        cells.append([count, "others", f'of {several(len(left), "kind")}: see "all"', ""])
    return Table(_REFUSAL_COLUMNS, cells, "not fired" if cells else "")


def short_lines(lines: Sequence[str], most: int = _MOST_LINES) -> str:
    """Lines of scripts in few characters: each file once, by its last name."""
    files: dict[str, list[str]] = {}
    for line in filter(None, lines[:most]):
        file, _, number = line.rpartition(":")
        files.setdefault(file, []).append(number)
    found = " ".join(f"{Path(file).name}:{','.join(numbers)}" for file, numbers in files.items())
    return f"{found} +{len(lines) - most}" if len(lines) > most else found


# -- layers and blocks -----------------------------------------------------------------------------

_BLOCK_COLUMNS = (
    Column(right=True),
    Column("layer or block", wraps=True),
    Column("fused", right=True),
    Column("as", wraps=True),
    Column("until"),
)


def _block_table(rows: Sequence[BlockRow]) -> Table:
    """The rows with fusions or refusals, and the largest of the others."""
    told = [row for row in rows if row.fused_ops or row.refused]
    if not told:
        return Table((), ())
    rank = {row: (row not in told, -row.count * row.ops_in_each) for row in rows}
    large = [row for row in rows if row in told or row.ops_in_each > 1]
    kept = set(sorted(large, key=rank.__getitem__)[:_MOST_BLOCKS])
    cells: list[list[str | Cell]] = []
    for row in rows:
        if row in kept:
            cells += _block_cells(row)
    left = [row for row in rows if row not in kept]
    if left:
        count = sum(row.count for row in left)
        kinds = ", ".join(row.ops for row in left if row.ops_in_each == 1)
        words = kinds if len(kinds) < _SHORT and all(row.ops_in_each == 1 for row in left) else ""
        name = f"others: {words}" if words else f"others, of {several(len(left), 'kind')}"
        cells.append([f"{count} x", name, "-", "", ""])
    return Table(_BLOCK_COLUMNS, cells, "layers and blocks, forward")


def _block_cells(row: BlockRow) -> Iterable[list[str | Cell]]:
    name = row.ops if row.kind == LAYER else f"{row.kind}: {row.ops}"
    fused = f"{row.fused_ops} of {row.ops_in_each}" if row.fused_ops else "-"
    style = "good" if row.fused_ops else "warn" if row.refused else ""
    made = "; ".join(_words(each, number) for each, number in row.fused)
    yield [
        f"{row.count} x",
        name,
        Cell(fused, style),
        made,
        short_lines([row.line]),
    ]
    for text in row.refused:
        numbers = ", ".join(map(str, row.numbers[:_MOST_LINES]))
        more = ", ..." if row.count > _MOST_LINES else ""
        yield ["", Cell(f"  no. {numbers}{more}", "warn"), "", Cell(text, "warn"), ""]


def _words(fused: Fused, number: int) -> str:
    """The ops of a fusion; the op that many became."""
    text = " + ".join(fused.ops) if len(fused.ops) <= _MOST_LINES else fused.made
    return text if number == 1 else f"{number} x {text}"
