"""Profiles as files of other viewers: speedscope, and Perfetto or Chrome's tracing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graphopt.runtime.profiling.rows import InstructionEvent, OpTime

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope_json(rows: Sequence[OpTime], idle: float, other: float) -> str:
    """One step as a sampled profile in seconds: line, then op, then forward or gradient."""
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
    """All events in Chrome's trace format, those that overlap in rows of their own."""
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
