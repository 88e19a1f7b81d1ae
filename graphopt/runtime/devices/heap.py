"""The heap of the C library, which can keep the memory of a step for the next one.

glibc maps a large block from the system and returns it when it is freed, and shrinks its heap where
the end is free, so that the kernel finds and clears each page in every step. With higher limits the
memory stays with the process.
"""

from __future__ import annotations

import ctypes
import functools
import sys

from graphopt.runtime.settings.flags import keeps_scratch

MAPPED = 32 << 20
"""The block size in bytes above which glibc calls mmap; glibc accepts no larger limit."""
# options of mallopt, from malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_LIMIT = (1 << 31) - 1
_most = [0]


def keep_heap(held: int) -> ctypes.CDLL | None:
    """Let the heap shrink only if it has more free bytes at its end than any `held` so far.

    Return the C library; None if it is not glibc, or if a flag disables this.
    """
    heap = _glibc() if keeps_scratch() else None
    if heap is not None:
        heap.mallopt(_MMAP_THRESHOLD, MAPPED)
        heap.mallopt(_TOP_PAD, 2 * MAPPED)  # the heaps of other threads keep so much
        _most[0] = max(held, _most[0])
        heap.mallopt(_TRIM_THRESHOLD, min(_most[0], _LIMIT))
    return heap


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
