"""paddle.profiler: times of steps, runs and marked spans, by a schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt import profiler, static
from graphopt.errors import UnsupportedError
from graphopt.profiler.spans import Span, merged_seconds
from graphopt.runtime.settings.run_times import kept_times
from graphopt_tests.frontend.programs import fresh

RECORD, LAST = profiler.ProfilerState.RECORD, profiler.ProfilerState.RECORD_AND_RETURN


def states(schedule: Any, count: int) -> str:
    """Return a letter per state: c closed, w ready, r record, R record and return."""
    letters = {RECORD: "r", LAST: "R", profiler.ProfilerState.READY: "w"}
    return "".join(letters.get(schedule(step), "c") for step in range(count))


def test_schedules() -> None:
    """Schedules are those of Paddle 2.6.2."""
    make = profiler.make_scheduler
    assert states(make(closed=1, ready=1, record=2, repeat=1, skip_first=1), 8) == "ccwrRccc"
    assert states(make(closed=0, ready=1, record=3), 8) == "wrrRwrrR"
    assert states(profiler.Profiler(scheduler=[2, 4]).scheduler, 6) == "cwrRcc"
    assert states(profiler.Profiler().scheduler, 3) == "rrr"
    with pytest.raises(ValueError, match="'record' above 0"):
        make(closed=1, ready=1, record=0)
    with pytest.raises(TypeError, match="'scheduler' must be a function or a pair"):
        profiler.Profiler(scheduler=3)  # type: ignore[arg-type]


def test_steps_of_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of four steps are recorded with their runs and spans, and exported to a file."""
    write = profiler.export_chrome_tracing(str(tmp_path), "worker")
    with fresh() as (main, _):
        x = static.data("x", [2, 3], "float32")
        y = x * 2.0
        exe = static.Executor()
        made = profiler.Profiler(scheduler=(1, 3), on_trace_ready=write)
        with made:
            for _ in range(4):
                with profiler.RecordEvent("mine"):
                    exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[y])
                made.step(num_samples=2)
    assert kept_times() is None
    assert made.step_info("images").endswith("images/s") and made.step_info() == ""
    (file,) = tmp_path.iterdir()
    events = json.loads(file.read_text())["traceEvents"]
    names = sorted(event["name"] for event in events)
    run = f"program_{main.serial}"
    assert names == ["ProfileStep#1", "ProfileStep#2", "mine", "mine", run, run]
    by_name = {event["name"]: event for event in events}
    assert by_name[run]["dur"] <= by_name["mine"]["dur"] <= by_name["ProfileStep#2"]["dur"]
    made.summary(sorted_by=profiler.SortedKeys.CPUMax, thread_sep=True, time_unit="us")
    report = capsys.readouterr().out
    assert "Time unit: us" in report and f"thread0::{run}" in report
    assert "Overview Summary" in report and "UserDefined Summary" in report
    made.summary(views=profiler.SummaryView.UDFView)
    report = capsys.readouterr().out
    assert "Overview" not in report and "mine  2" in report
    with pytest.raises(ValueError, match="'time_unit' should be one of"):
        made.summary(time_unit="h")
    with pytest.raises(ValueError, match="'format' should be 'json'"):
        made.export("x", "pb")


def test_timing_only() -> None:
    """Nothing is recorded or exported; without samples the speed is in steps."""
    made = profiler.Profiler(timer_only=True, on_trace_ready=pytest.fail)
    made.start()
    assert kept_times() is None
    made.step()
    made.stop()
    assert made.step_info().endswith("steps/s")
    profiler.RecordEvent("before a profiler").end()


def test_overlapping_spans_count_once() -> None:
    spans = [Span("a", "", 0.0, 2.0, 0), Span("b", "", 1.0, 3.0, 1), Span("c", "", 5.0, 6.0, 0)]
    assert merged_seconds(spans) == 4.0


@pytest.mark.parametrize("name", ["export_protobuf", "load_profiler_result"])
def test_protobuf_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="writes what it records as JSON"):
        getattr(profiler, name)("folder")
