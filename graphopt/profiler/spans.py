"""Spans of time on the host, as the profilers record them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from graphopt.ir.program import Program
from graphopt.runtime.settings.run_times import RunTimes

STEP, RUN, USER = "ProfileStep", "Operator", "UserDefined"


class Span(NamedTuple):
    """A named span in seconds, of a kind, on a thread."""

    name: str
    kind: str
    start: float
    end: float
    thread: int

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Recorder(RunTimes):
    """The spans since a profiler began to record; runs of executors add themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []

    def add(self, program: Program, seconds: float) -> None:
        super().add(program, seconds)
        self.note(f"program_{program.serial}", RUN, perf_counter() - seconds)

    def note(self, name: str, kind: str, start: float) -> None:
        """Add a span from `start` until now on this thread."""
        self.spans.append(Span(name, kind, start, perf_counter(), threading.get_ident()))


def merged_seconds(spans: Sequence[Span]) -> float:
    """Sum the time that spans cover; overlapping time counts once."""
    total = 0.0
    end = 0.0
    for span in sorted(spans, key=lambda span: span.start):
        total += max(span.end - max(span.start, end), 0.0)
        end = max(end, span.end)
    return total


def chrome_trace(spans: Sequence[Span]) -> str:
    """Serialize spans for Chrome's trace viewer, in microseconds."""
    events = [
        {
            "name": span.name,
            "cat": span.kind,
            "ph": "X",
            "ts": span.start * 1e6,
            "dur": span.seconds * 1e6,
            "pid": os.getpid(),
            "tid": span.thread,
        }
        for span in spans
    ]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})
