"""Recorded spans in the form of Paddle's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from graphopt.profiler.spans import RUN, STEP, USER, Span, merged_seconds


class SortedKeys(Enum):
    """The number by which rows are sorted, the largest first; GPU numbers are the host's here."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(Enum):
    """The tables that can be requested."""

    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8


# the available views: tables of the host's spans
TABLES = {SummaryView.OverView, SummaryView.OperatorView, SummaryView.UDFView}
_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
Times = Sequence[float]
_NUMBERS: Sequence[Callable[[Times], float]] = (
    sum,
    lambda times: sum(times) / len(times),
    max,
    min,
)
_NOTE = (
    "XLA compiles a program as one piece, so a row is a program, by its number, with the time of "
    "its runs. Operators: program.explain(), and jax.profiler."
)


def summary(
    spans: Sequence[Span],
    sorted_by: SortedKeys,
    thread_sep: bool,
    time_unit: str,
    views: set[SummaryView],
) -> str:
    """Format the tables as text; ValueError for a unit that is not s, ms, us or ns."""
    if time_unit not in _UNITS:
        raise ValueError(
            f"summary(): 'time_unit' should be one of {[*_UNITS]}, found {time_unit!r}"
        )
    unit = _UNITS[time_unit]
    parts: list[str] = []
    if SummaryView.OverView in views:
        parts += _overview(spans, unit, time_unit)
    titles = {SummaryView.OperatorView: RUN, SummaryView.UDFView: USER}
    for view, kind in titles.items():
        own = [span for span in spans if span.kind == kind]
        if view in views and own:
            parts += _rows(f"{kind} Summary", own, spans, sorted_by, thread_sep, unit, time_unit)
            parts += ["Note:", _NOTE, ""] if kind == RUN else []
    return "\n".join(parts)


def _lines(
    title: str, time_unit: str, widths: Sequence[int], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Format a table whose first row is the header."""
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    head = [title.center(len(rule), "-"), f"Time unit: {time_unit}", rule, text[0], rule]
    return [*head, *text[1:], rule, ""]


def _overview(spans: Sequence[Span], unit: float, time_unit: str) -> list[str]:
    whole = merged_seconds([span for span in spans if span.kind == STEP])
    rows = [("Event Type", "Calls", "CPU Time", "Ratio (%)")]
    for kind in (STEP, USER, RUN):
        own = [span for span in spans if span.kind == kind]
        if own:
            seconds = merged_seconds(own)
            name = kind if kind == STEP else f"  {kind}"
            share = 100 * seconds / whole if whole else 0.0
            rows.append((name, str(len(own)), f"{unit * seconds:.2f}", f"{share:.2f}"))
    return _lines("Overview Summary", time_unit, (25, 25, 25, 25), rows)


def _rows(
    title: str,
    own: Sequence[Span],
    spans: Sequence[Span],
    sorted_by: SortedKeys,
    thread_sep: bool,
    unit: float,
    time_unit: str,
) -> list[str]:
    whole = merged_seconds([span for span in spans if span.kind == STEP]) or merged_seconds(own)
    threads = {thread: i for i, thread in enumerate(dict.fromkeys(s.thread for s in own))}
    times: dict[str, list[float]] = {}
    for span in own:
        name = f"thread{threads[span.thread]}::{span.name}" if thread_sep else span.name
        times.setdefault(name, []).append(span.seconds)
    key = _NUMBERS[sorted_by.value % 4]
    rows = [("Name", "Calls", "CPU Total / Avg / Max / Min / Ratio(%)")]
    for name, values in sorted(times.items(), key=lambda row: key(row[1]), reverse=True):
        cells = [f"{unit * number(values):.2f}" for number in _NUMBERS]
        share = f"{100 * sum(values) / whole:.2f}"
        rows.append((name, str(len(values)), " / ".join([*cells, share])))
    return _lines(title, time_unit, (max(len(row[0]) for row in rows), 6, 40), rows)
