"""The queue of a loader inside a program: batches made ahead, or pushed by the script."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from graphopt.frontend.prefetch import Prefetch

PATIENCE = 60.0
"""The seconds that a run waits for the first batch of a script that has read `queue`."""


class BatchQueue:
    """Up to `capacity` batches of a loader (`loader.queue`).

    The loader's generator makes the batches of a started epoch. Without one a script pushes
    batches, often from a thread, and closes the queue after the last one. `is_known` is True once a
    script has read `queue`.
    """

    def __init__(self, capacity: int) -> None:
        self.is_known = False
        self._capacity = capacity
        self._epoch: weakref.ref[Prefetch] | None = None
        self._changed = threading.Condition()
        self._pushed = deque[Any]()
        self._closed = False

    def follow(self, epoch: Prefetch) -> None:
        """Count the batches of this epoch from now on."""
        self._epoch = weakref.ref(epoch)

    def end(self) -> None:
        """End the epoch, if one runs."""
        epoch = self._epoch and self._epoch()
        if epoch:
            epoch.close()

    def size(self) -> int:
        """Count the batches that wait for a step."""
        epoch = self._epoch and self._epoch()
        return len(self._pushed) + (epoch.size() if epoch else 0)

    def push(self, batch: Any) -> bool:
        """Add a batch, a list with a tensor for each variable; wait while the queue is full.

        Once the queue is closed, add nothing and return False.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._pushed) < self._capacity)
            if self._closed:
                return False
            self._pushed.append(batch)
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """Accept no more batches: the epoch ends after the waiting ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reopen(self) -> None:
        """Drop the waiting batches, and accept new ones."""
        with self._changed:
            self._pushed.clear()
            self._closed = False
            self._changed.notify_all()

    def waits(self, seconds: float = PATIENCE) -> bool:
        """Wait for a batch or the end; return False if neither comes within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or bool(self._pushed), seconds)

    def take(self, count: int) -> list[Any]:
        """Take the next `count` batches; fewer when the queue is closed before."""
        found: list[Any] = []
        with self._changed:
            while len(found) < count:
                self._changed.wait_for(lambda: self._closed or bool(self._pushed))
                if not self._pushed:
                    break
                found.append(self._pushed.popleft())
                self._changed.notify_all()
        return found
