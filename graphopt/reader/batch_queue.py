"""The queue of a loader inside a program: batches made ahead, or pushed by the script."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from graphopt.frontend.prefetch import Prefetch

PATIENCE = 60.0
"""Seconds that a run waits for the first batch of a script that has read `queue`."""


class BatchQueue:
    """Up to `capacity` batches of a loader (`loader.queue`).

    Those of an epoch that was started come from the loader's generator. Without one a script
    pushes batches, often from a thread, and closes the queue after the last one. `is_known` is True
    once a script has read `queue`.
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
        """The number of batches that wait for a step."""
        epoch = self._epoch and self._epoch()
        return len(self._pushed) + (epoch.size() if epoch else 0)

    def push(self, batch: Any) -> bool:
        """Add a batch, a list with a tensor for each variable; waits while the queue is full.

        False, and nothing is added, once the queue is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._pushed) < self._capacity)
            if self._closed:
                return False
            self._pushed.append(batch)
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """Take no more batches: after those that wait the epoch is at its end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reopen(self) -> None:
        """Forget the batches that wait, and take others."""
        with self._changed:
            self._pushed.clear()
            self._closed = False
            self._changed.notify_all()

    def waits(self, seconds: float = PATIENCE) -> bool:
        """Wait for a batch or the end; False when neither came in this time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or bool(self._pushed), seconds)

    def take(self, count: int) -> list[Any]:
        """The next batches, fewer than `count` at the end of what is pushed."""
        found: list[Any] = []
        with self._changed:
            while len(found) < count:
                self._changed.wait_for(lambda: self._closed or bool(self._pushed))
                if not self._pushed:
                    break
                found.append(self._pushed.popleft())
                self._changed.notify_all()
        return found
