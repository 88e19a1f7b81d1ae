"""Buffers of growing caches: arrays with room for more rows, which steps write in place.

A step takes a buffer and gives it back with rows appended. So the fetches of all steps so far are
rows of one buffer: none of them is copied, and none changes, as later steps write after their rows.
Rows that a script feeds back are recognized, and copied only where later rows were written already.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from graphopt.runtime.state.arrays import Array, HostArray

_taking = threading.Lock()


class Buffer:
    """An array whose first `count` rows along an axis are data, and the others 0.

    `home` is as in a slot. `lock` is held while a step has the buffer. `count` is -1 meanwhile, and
    stays so if the step fails: rows may have been written then.
    """

    __slots__ = ("array", "axis", "count", "home", "lock")

    def __init__(self, array: Array, axis: int, count: int, lock: Any, home: object = None) -> None:
        self.array, self.axis, self.count = array, axis, count
        self.lock, self.home = lock, home

    @property
    def size(self) -> int:
        """The number of rows for which it has room."""
        return self.array.shape[self.axis]

    def take(self, count: int) -> bool:
        """Take the buffer for a step that writes after `count` rows; False if its count differs."""
        with _taking:
            if self.count != count:
                return False
            self.count = -1
            return True


class HeldRows:
    """The first rows of a buffer, as a fetch: an array that is made when it is read."""

    __slots__ = ("buffer", "count", "dtype", "shape")

    def __init__(self, buffer: Buffer, count: int) -> None:
        self.buffer, self.count = buffer, count
        self.dtype: np.dtype[Any] = np.dtype(buffer.array.dtype)
        whole = buffer.array.shape
        self.shape = (*whole[: buffer.axis], count, *whole[buffer.axis + 1 :])

    def view(self) -> HostArray:
        """View the rows; valid as long as no step runs."""
        return np.asarray(self.buffer.array)[
            (slice(None),) * self.buffer.axis + (slice(self.count),)
        ]

    def numpy(self) -> HostArray:
        """Copy the rows."""
        with self.buffer.lock:
            return np.array(self.view())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return repr(self.numpy())


# the buffer of each host copy, by the copy's id; dropped with the copy
_copies: dict[int, tuple[weakref.ref[HostArray], HeldRows]] = {}


def note_copy(copy: HostArray, rows: HeldRows) -> None:
    """Note that an array was handed to a script as a copy of these rows."""
    number = id(copy)
    _copies[number] = weakref.ref(copy, lambda _: _copies.pop(number, None)), rows


def rows_of_copy(array: HostArray) -> HeldRows | None:
    """Find the rows of which an array is a copy, if it is still equal; None for others."""
    known = _copies.get(id(array))
    if known is None or known[0]() is not array:
        return None
    rows = known[1]
    if rows.shape != array.shape or rows.dtype != array.dtype:
        return None
    with rows.buffer.lock:
        # a script may have written into the copy
        same = np.array_equal(_bits(rows.view()), _bits(array))
    return rows if same else None


def _bits(array: HostArray) -> HostArray:
    """View the same bits as integers, each of which equals itself."""
    size = array.dtype.itemsize
    return array if array.dtype.kind in "iub" or size > 8 else array.view(f"u{size}")
