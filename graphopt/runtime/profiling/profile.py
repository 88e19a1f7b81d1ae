"""The profile of a program: the time of a step by op, by source line, by kind of op.

It prints as text, and writes files for Speedscope and Perfetto.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from xdsl.dialects.builtin import ModuleOp

from graphopt.display.table import Cell, Column, Page, Shown, Table
from graphopt.display.units import milliseconds, quantity, several
from graphopt.runtime.profiling.memory import Memory
from graphopt.runtime.profiling.rows import InstructionEvent, OpTime

By = Literal["op", "line", "kind"]
_MOST = 30
_PLACES = ("op", "variable", "line")


@dataclass(frozen=True, repr=False)
class Profile(Shown):
    """The time of a step by op; it prints itself.

    `rows` are the ops of the optimized program, the slowest first. Where several run at the same
    time, each gets a share of it, so that all times are parts of `seconds`: the time of a step from
    NumPy feeds to NumPy fetches, measured without the profiler. `idle` is the rest of it, for
    feeds, fetches and the executor, and `other` the time of instructions of no op. `peaks` are the
    peak FLOP/s of each kind of product, measured here or reached by one of the ops, and `events`
    are all instructions of all `steps` under the profiler. `module` is the optimized program, whose
    op numbers the rows have, and `memory` the memory of a step.
    """

    rows: tuple[OpTime, ...]
    seconds: float
    idle: float
    other: float
    steps: int
    peaks: Mapping[str, float]
    events: Sequence[InstructionEvent]
    module: ModuleOp
    memory: Memory

    @property
    def attributed(self) -> float:
        """The share of a step's time that belongs to ops, from 0 to 1."""
        return sum(row.seconds for row in self.rows) / self.seconds

    def table(self, by: By = "op") -> tuple[OpTime, ...]:
        """Return the rows, or their sums by source line or by kind of op, the slowest first.

        Raise ValueError for another `by`.
        """
        if by == "op":
            return self.rows
        if by not in get_args(By):
            raise ValueError(f"by should be one of {', '.join(get_args(By))}, found {by!r}")
        found: dict[str, OpTime] = {}
        for row in self.rows:
            key = row.line if by == "line" else row.op
            old = found.get(key)
            one = replace(
                row, variable="", number=None, **({"op": ""} if by == "line" else {"line": ""})
            )
            found[key] = one if old is None else _sum(old, one)
        return _sort_rows(found.values())

    def page(self) -> Page:
        """Build a page with the table by op."""
        return self.page_by("op")

    def page_by(self, by: By, most: int = _MOST) -> Page:
        """Build a page with `most` rows, all of them for 0; `ms` includes `gradient`."""
        rows = self.table(by)
        shown = rows[: most or None]
        rest = rows[len(shown) :]
        first = _PLACES.index("line") if by == "line" else 0
        cells = [self._cells(row)[first:] for row in shown]
        if rest:
            seconds = sum(row.seconds for row in rest)
            cells.append(self._named_row(f"{several(len(rest), 'other')}", seconds, first))
        if self.other:
            cells.append(self._named_row("instructions of no op", self.other, first))
        cells.append(self._named_row("feeds, fetches, executor", self.idle, first))
        columns = (
            *map(Column, _PLACES[first:]),
            Column("ms", right=True),
            Column("gradient", right=True),
            Column("% of step", right=True),
            Column("FLOP/s", right=True),
            Column("% of peak", right=True),
        )
        head = (
            f"a step takes {milliseconds(self.seconds)} ms, of which {100 * self.attributed:.1f} % "
            f"belong to ops (mean of {several(self.steps, 'step')}{peak_words(self.peaks)})"
        )
        return Page([head, Table(columns, cells)])

    def _cells(self, row: OpTime) -> list[str | Cell]:
        rate = row.flops / row.seconds if row.seconds else 0.0
        return [
            *(row.op, row.variable, _short(row.line)),
            f"{row.seconds * 1e3:.3f}",
            f"{row.gradient * 1e3:.3f}" if row.gradient else "",
            f"{100 * row.seconds / self.seconds:.1f}",
            f"{quantity(round(rate))}FLOP/s" if row.flops else "",
            f"{100 * row.at_peak / row.seconds:.0f}" if row.flops and row.seconds else "",
        ]

    def _named_row(self, name: str, seconds: float, first: int) -> list[str | Cell]:
        share = f"{100 * seconds / self.seconds:.1f}"
        places = [Cell(name, "dim"), *[""] * (len(_PLACES) - 1 - first)]
        return [*places, f"{seconds * 1e3:.3f}", "", share, "", ""]

    def to_json(self) -> dict[str, Any]:
        """Convert the profile to plain data; times are seconds of one step."""
        rows = [asdict(row) for row in self.rows]
        whole = {name: getattr(self, name) for name in ("seconds", "idle", "other", "steps")}
        return {"schema": 2, **whole, "peak_flops": dict(self.peaks), "ops": rows}

    def speedscope(self, path: str | os.PathLike[str]) -> None:
        """Write a file for Speedscope: stacks of line, op and direction.

        Raise OSError when it cannot be written.
        """
        _write(path, speedscope_json(self.rows, self.idle, self.other))

    def perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write the events of all steps for Perfetto and Chrome's tracing; OSError as above."""
        _write(path, perfetto_json(self.events))


def peak_words(peaks: Mapping[str, float]) -> str:
    """Format the peaks, each after a semicolon."""
    return "".join(
        f"; peak of a {kind}: {quantity(round(rate))}FLOP/s" for kind, rate in peaks.items()
    )


def _write(path: str | os.PathLike[str], text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _sum(one: OpTime, other: OpTime) -> OpTime:
    return replace(
        one,
        forward=one.forward + other.forward,
        gradient=one.gradient + other.gradient,
        flops=one.flops + other.flops,
        at_peak=one.at_peak + other.at_peak,
    )


def _sort_rows(rows: Iterable[OpTime]) -> tuple[OpTime, ...]:
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _short(line: str) -> str:
    """Strip the folders from a source line."""
    return line.replace("\\", "/").rpartition("/")[2]


_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope_json(rows: Sequence[OpTime], idle: float, other: float) -> str:
    """Encode one step as a sampled profile in seconds: line, op, forward or gradient."""
    frames: dict[str, int] = {}

    def frame(name: str) -> int:
        return frames.setdefault(name, len(frames))

    samples: list[list[int]] = []
    weights: list[float] = []
    for row in rows:
        above = [row.line or "(no line)", f"{row.op} {row.variable}".strip()]
        for name, seconds in (("forward", row.forward), ("gradient", row.gradient)):
            if seconds:
                samples.append([frame(each) for each in (*above, name)])
                weights.append(seconds)
    for name, seconds in (("feeds, fetches, executor", idle), ("instructions of no op", other)):
        if seconds:
            samples.append([frame(name)])
            weights.append(seconds)
    profile = {
        "type": "sampled",
        "name": "a step",
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    shared = {"frames": [{"name": name} for name in frames]}
    return json.dumps(
        {"$schema": _SCHEMA, "exporter": "graphopt", "shared": shared, "profiles": [profile]}
    )


def perfetto_json(events: Sequence[InstructionEvent]) -> str:
    """Encode all events in Chrome's trace format, with rows of their own where they overlap."""
    ends: list[float] = []
    found: list[dict[str, Any]] = []
    for event in sorted(events, key=lambda event: event.start):
        free = (row for row, end in enumerate(ends) if end <= event.start)
        row = next(free, len(ends))
        ends[row : row + 1] = [event.end]
        args = {"instruction": event.instruction, "line": event.line}
        found.append(
            {
                "name": event.op or event.instruction,
                "ph": "X",
                "pid": 0,
                "tid": row,
                "ts": event.start / 1e3,
                "dur": (event.end - event.start) / 1e3,
                "args": {name: text for name, text in args.items() if text},
            }
        )
    return json.dumps({"traceEvents": found, "displayTimeUnit": "ms"})
