"""Automatic names as Paddle makes them, `fc_0`, `fc_0.w_0`, `fc_0.tmp_1` (utils.unique_name)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager

_counters: defaultdict[str, int] = defaultdict(int)


def generate(key: str) -> str:
    """The next name with this prefix: `fc_0`, `fc_1`, …"""
    number = _counters[key]
    _counters[key] += 1
    return f"{key}_{number}"


@contextmanager
def guard() -> Generator[None]:
    """Count from zero inside the block and restore the counters afterwards."""
    global _counters
    saved, _counters = _counters, defaultdict[str, int](int)
    try:
        yield
    finally:
        _counters = saved
