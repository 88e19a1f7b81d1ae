"""Scheduling hints of operators (Operator.dist_attr)."""

from __future__ import annotations


class OperatorDistAttr:
    """The scheduling hints of an operator, which scripts set for Paddle's executors.

    They are kept and have no effect: XLA schedules by the data.
    """

    def __init__(self, op_type: str) -> None:
        self.op_type = op_type
        self.impl_type, self.impl_idx, self.chunk_id = "default", 0, 0
        self.is_recompute = False
        self.execution_stream, self.stream_priority = "default", 0
        self.scheduling_priority = 0
        self.run_time_us = -1.0
        self.force_record_event = False
        self.events_to_wait: list[str] = []
