"""The cores that this process may use, by which kernels choose their sizes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def quota(own: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> int:
    """Count the cores that the container's limits allow this process; CORES without a limit.

    `own` lists the control groups of the process, which are below `mounted`. A limit of one and a
    half cores counts as two.
    """
    try:
        lines = own.read_text("utf-8").splitlines()
    except OSError:  # not Linux
        return CORES
    limits = [CORES]
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        # cgroup version 2 has no kinds; a hybrid setup mounts it as `unified`
        for folder in (mounted / kinds, mounted / ("cpu" if kinds else "unified")):
            inner = folder / path.lstrip("/")
            around = (each for each in (inner, *inner.parents) if each.is_relative_to(folder))
            limits += [cores for each in around for cores in _limits(each)]
    return min(limits)


def _limits(group: Path) -> Iterator[int]:
    """Read the limit of a control group in cores, if it has one."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            words = [word for name in names for word in (group / name).read_text("utf-8").split()]
        except OSError:
            continue
        # `max` in version 2 and -1 in version 1 mean no limit
        if len(words) == 2 and all(word.isdigit() for word in words):
            time, period = map(int, words)
            yield max(-(-time // max(period, 1)), 1)
