"""The work of a profiler in each step (paddle.profiler)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class ProfilerState(Enum):
    """The work of a profiler in a step: nothing, warm up, record, or record and hand over."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


Schedule = Callable[[int], ProfilerState]


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Schedule:
    """Build a schedule: periods of closed, ready and recorded steps, after `skip_first` closed
    ones.

    `repeat` limits the periods, 0 for no limit. ValueError unless a step is recorded and no number
    is below 0. Paddle page: paddle.profiler.make_scheduler.
    """
    if min(closed, ready, repeat, skip_first) < 0 or record < 1:
        raise ValueError("make_scheduler(): numbers from 0 on are expected, 'record' above 0")
    period = closed + ready + record

    def state(step: int) -> ProfilerState:
        after = step - skip_first
        if after < 0 or (repeat and after >= repeat * period):
            return ProfilerState.CLOSED
        place = after % period
        if place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        last = place == period - 1
        return ProfilerState.RECORD_AND_RETURN if last else ProfilerState.RECORD

    return state


def between(start: int, end: int) -> Schedule:
    """Build a schedule that records the steps from `start` up to `end` once."""
    ready = min(start, 1)
    return make_scheduler(closed=max(start - 1, 0), ready=ready, record=end - start, repeat=1)


def always(step: int) -> ProfilerState:
    """Record every step."""
    return ProfilerState.RECORD
