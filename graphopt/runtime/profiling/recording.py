"""The events of JAX's profiler during some steps: each XLA instruction that ran, with its times."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

from graphopt.errors import UnsupportedError

STEP = "graphopt step"


class InstructionSpan(NamedTuple):
    """An instruction that ran, with its start and end in nanoseconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Recording:
    """Steps, and the instructions of the program that ran in them, both sorted by time."""

    steps: Sequence[InstructionSpan]
    instructions: Sequence[InstructionSpan]


def record(step: Callable[[], object], count: int) -> Recording:
    """Run `count` steps under the profiler, each to its end.

    The profiler is stopped in any case. Raise RuntimeError when one is running already, and
    UnsupportedError where the device's profiler writes no events of instructions.
    """
    with tempfile.TemporaryDirectory(prefix="graphopt-profile-") as folder:
        with _tracing(folder):
            for _ in range(count):
                with jax.profiler.TraceAnnotation(STEP):
                    step()
        found = [*Path(folder).rglob("*.xplane.pb")]
        events = [event for file in found for event in _events(file)]
    steps = sorted(span for span, _ in events if span.name == STEP)
    ends = {stats["_c"]: span.end for span, stats in events if span.name.startswith("end: ")}
    spans = [
        InstructionSpan(
            str(stats["hlo_op"]), span.start, max(span.end, ends.get(stats.get("_p"), 0))
        )
        for span, stats in events
        if "hlo_op" in stats
    ]
    if len(steps) != count or not spans:
        raise UnsupportedError(
            "JAX's profiler has no events of XLA's instructions here, so there are no times by op"
        )
    return Recording(steps, sorted(spans, key=lambda span: span.start))


@contextmanager
def _tracing(folder: str) -> Generator[None]:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # Python events cost more than the steps of a small program
    jax.profiler.start_trace(folder, profiler_options=options)
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def _events(file: Path) -> list[tuple[InstructionSpan, dict[str, Any]]]:
    data = jax.profiler.ProfileData.from_file(str(file))
    return [
        (InstructionSpan(event.name, event.start_ns, event.end_ns), dict(event.stats))
        for plane in data.planes
        for line in plane.lines
        for event in line.events
        if event.name == STEP or event.name.startswith("end: ") or _is_instruction(event)
    ]


def _is_instruction(event: Any) -> bool:
    return any(name == "hlo_op" for name, _ in event.stats)
