"""Profilers of steps, and spans that scripts mark (paddle.profiler)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from graphopt.profiler.schedule import ProfilerState, Schedule, always, between
from graphopt.profiler.spans import STEP, USER, Recorder, Span, chrome_trace
from graphopt.profiler.table import TABLES, SortedKeys, SummaryView, summary
from graphopt.runtime.settings.run_times import RunTimes, keep, kept_times

_RECORDING = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)


class ProfilerTarget(Enum):
    """The profiled device; times are measured on the host, which waits for the device."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


class RecordEvent:
    """A span that a profiler records under a name, as a block or from `begin` to `end`.

    `event_type` has no effect. Paddle page: paddle.profiler.RecordEvent.
    """

    def __init__(self, name: str, event_type: Any = None) -> None:
        self.name = name
        self._start: float | None = None

    def begin(self) -> None:
        """Start the span."""
        self._start = perf_counter()

    def end(self) -> None:
        """End the span; do nothing if it has not begun."""
        recorder = kept_times()
        if self._start is not None and isinstance(recorder, Recorder):
            recorder.note(self.name, USER, self._start)
        self._start = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


class Profiler:
    """Records runs of executors and marked spans in the steps of a schedule.

    `scheduler` is a function of the number of a step, a pair (start, end), or None for all steps.
    At the end of each recorded period `on_trace_ready` is called with the profiler. With
    `timer_only` steps are only timed. `targets`, `record_shapes`, `profile_memory`, `emit_nvtx`,
    `custom_device_types` and `with_flops` have no effect: the times are the host's. Paddle page:
    paddle.profiler.Profiler.
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Schedule | tuple[int, int] | list[int] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: Iterable[str] = (),
        with_flops: bool = False,
    ) -> None:
        if scheduler is None:
            self.scheduler: Schedule = always
        elif callable(scheduler):
            self.scheduler = scheduler
        elif isinstance(scheduler, (tuple, list)) and len(scheduler) == 2:
            self.scheduler = between(scheduler[0], scheduler[1])
        else:
            raise TypeError(
                "Profiler(): 'scheduler' must be a function or a pair of steps, found "
                f"{scheduler!r}"
            )
        self.on_trace_ready = on_trace_ready or export_chrome_tracing("./profiler_log/")
        self.timer_only = timer_only
        self.step_num = 0
        self.current_state = ProfilerState.CLOSED
        self._spans: list[Span] = []
        self._recorder: Recorder | None = None
        self._before: RunTimes | None = None
        self._began = 0.0
        self._times: list[tuple[float, int | None]] = []

    def start(self) -> None:
        """Begin the first step."""
        self._began = perf_counter()
        self._enter(self.scheduler(self.step_num))

    def stop(self) -> None:
        """Stop, and hand over the spans recorded so far."""
        if self._recorder is not None:
            self._end_step()
            self._hand_over()
        self.current_state = ProfilerState.CLOSED

    def step(self, num_samples: int | None = None) -> None:
        """End a step of `num_samples` samples, and begin the next one."""
        self._times.append((perf_counter() - self._began, num_samples))
        if self._recorder is not None:
            self._end_step()
        if self.current_state is ProfilerState.RECORD_AND_RETURN:
            self._hand_over()
        self.step_num += 1
        self._began = perf_counter()
        self._enter(self.scheduler(self.step_num))

    def step_info(self, unit: str | None = None) -> str:
        """Format the mean time of the steps since the last call, and the samples per second."""
        if not self._times:
            return ""
        seconds = sum(time for time, _ in self._times)
        samples = [number for _, number in self._times]
        if None in samples:
            speed, word = len(samples) / seconds, "steps"
        else:
            speed = sum(number or 0 for number in samples) / seconds
            word = unit or "samples"
        cost = seconds / len(samples)
        self._times.clear()
        return f" batch_cost: {cost:.5f} s ips: {speed:.3f} {word}/s"

    def export(self, path: str = "", format: str = "json") -> None:
        """Write the recorded spans for Chrome's trace viewer; ValueError for another format."""
        if format != "json":
            raise ValueError(f"export(): 'format' should be 'json', found {format!r}")
        Path(path).write_text(chrome_trace(self._spans), "utf-8")

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: SummaryView | Iterable[SummaryView] | None = None,
    ) -> None:
        """Print tables of the recorded spans; the tables of devices and memory have no rows here.

        ValueError for a `time_unit` that is not s, ms, us or ns. `op_detail` has no effect.
        """
        asked = [views] if isinstance(views, SummaryView) else TABLES if views is None else views
        print(summary(self._spans, sorted_by, thread_sep, time_unit, set(asked)), flush=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _enter(self, state: ProfilerState) -> None:
        if state in _RECORDING and self._recorder is None and not self.timer_only:
            self._recorder, self._before = Recorder(), kept_times()
            keep(self._recorder)
        elif state not in _RECORDING and self._recorder is not None:
            self._hand_over()
        self.current_state = state

    def _end_step(self) -> None:
        if self._recorder is not None:
            self._recorder.note(f"{STEP}#{self.step_num}", STEP, self._began)

    def _hand_over(self) -> None:
        if self._recorder is not None:
            keep(self._before)
            self._spans, self._recorder = self._recorder.spans, None
            self.on_trace_ready(self)


def export_chrome_tracing(
    dir_name: str, worker_name: str | None = None
) -> Callable[[Profiler], None]:
    """Return an `on_trace_ready` function that writes a trace for Chrome's viewer to a folder.

    The file is named after the worker (by default host and process) and the time. Paddle page:
    paddle.profiler.export_chrome_tracing.
    """

    def handle(profiler: Profiler) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}"
        now = datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
        profiler.export(os.path.join(dir_name, f"{worker}_time_{now}.paddle_trace.json"))

    return handle
