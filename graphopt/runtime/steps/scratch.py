"""The memory of a step's intermediate values, which stays with the process from step to step.

In each run, XLA allocates one block for all of them from the C library, which maps a block of more
than 32 MB from the system (`devices/heap.py`). During a run, such a block is allocated from the
heap here, which keeps it. glibc has that heap for the main thread alone; elsewhere blocks are
mapped as before. Smaller blocks always come from a heap, which is only kept from shrinking.

The block of a step is released when another step begins, and with the step itself. Steps that
alternate for long, such as those of two networks that train each other, keep one each.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from dataclasses import dataclass

import jax
import numpy as np

from graphopt.runtime.devices.heap import MAPPED, keep_heap
from graphopt.runtime.state.arrays import FedArrays, Step

HELD = 1 << 20
"""The block size in bytes from which on the heap is kept from shrinking."""
COPIED_LATER = 100_000
"""The size in bytes from which on a JAX thread copies a fed array, and then also runs the step."""
ALIGNMENT = 64
"""JAX does not copy an array whose address is a multiple of this."""

CHANGES = 40
"""The number of changes between steps after which each step keeps its block."""

# an option of mallopt, from malloc.h
_MMAP_MAX = -4
_MOST_MAPPED = 65536


@dataclass
class _Ran:
    """The last step that ran with a large block, and the number of changes so far."""

    last: weakref.ref[Scratch] | None = None
    changes: int = 0


_ran = _Ran()


class Scratch:
    """The block of one compiled step on the heap; a context manager for its runs."""

    def __init__(self, heap: ctypes.CDLL) -> None:
        self._heap = heap
        self._itself: weakref.ref[Scratch] = weakref.ref(self)
        weakref.finalize(self, heap.malloc_trim, 0).atexit = False

    def place_feeds(self, arrays: FedArrays) -> FedArrays:
        """Align feeds so that JAX runs the step in the calling thread."""
        return tuple([_align_array(a) if isinstance(a, np.ndarray) else a for a in arrays])

    def __enter__(self) -> None:
        if not _is_main_thread():
            return
        if _ran.last is not self._itself:
            _ran.changes += _ran.last is not None
            _ran.last = self._itself
            if _ran.changes <= CHANGES:
                self._heap.malloc_trim(0)
        self._heap.mallopt(_MMAP_MAX, 0)

    def __exit__(self, *_: object) -> None:
        if _is_main_thread():
            self._heap.mallopt(_MMAP_MAX, _MOST_MAPPED)


def scratch_of(function: Step) -> Scratch | None:
    """Build the scratch block of a step; None if its memory is small or not managed."""
    size = temporary_bytes(function)
    if size < HELD:
        return None
    heap = keep_heap(2 * size + MAPPED)
    return None if heap is None or size < MAPPED else Scratch(heap)


def temporary_bytes(function: Step) -> int:
    """Read the size of an executable's block; 0 unless XLA compiled it for one CPU."""
    if not isinstance(function, jax.stages.Compiled):
        return 0
    executable, found = function.runtime_executable(), function.memory_analysis()
    if executable is None or found is None:
        return 0
    devices = executable.local_devices()
    is_one_cpu = len(devices) == 1 and devices[0].platform == "cpu"
    return int(found.temp_size_in_bytes) if is_one_cpu else 0


def _align_array(array: np.ndarray) -> np.ndarray:
    """Copy an array to aligned memory, so that JAX need not copy it."""
    if array.nbytes < COPIED_LATER:
        return array
    address = array.__array_interface__["data"][0]
    if address % ALIGNMENT == 0 and array.flags.c_contiguous:
        return array
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    offset = -room.__array_interface__["data"][0] % ALIGNMENT
    copy = np.ndarray(array.shape, array.dtype, room, offset)
    copy[...] = array
    return copy


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident
