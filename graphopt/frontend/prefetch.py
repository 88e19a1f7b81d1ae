"""Iteration in a thread, ahead of the consumer."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any


class _Ahead:
    """The items that a thread has produced and the consumer has not taken yet."""

    def __init__(self, size: int) -> None:
        self.size = max(size, 1)
        self.items = deque[Any]()
        self.changed = threading.Condition()
        self.ended = False
        self.closed = False
        self.error: BaseException | None = None

    def fill(self, source: Callable[[], Iterable[Any]]) -> None:
        """Produce items until the source ends or fails, or the consumer closes."""
        try:
            for item in source():
                with self.changed:
                    self.changed.wait_for(lambda: self.closed or len(self.items) < self.size)
                    if self.closed:
                        return
                    self.items.append(item)
                    self.changed.notify_all()
        except BaseException as error:
            self.error = error
        finally:
            with self.changed:
                self.ended = True
                self.changed.notify_all()

    def take(self) -> Generator[Any]:
        """Yield the items in order, then raise the error of the source if it failed."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.items or self.ended)
                if not self.items:
                    break
                item = self.items.popleft()
                self.changed.notify_all()
            yield item
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Stop the thread at its next item."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class Prefetch(Iterator[Any]):
    """The items of `source()`, produced up to `size` ahead by a thread.

    An error of the source is raised by `next`, after the items before it. Closing the iterator, or
    dropping it, ends the `thread`.
    """

    def __init__(self, source: Callable[[], Iterable[Any]], size: int) -> None:
        self._ahead = _Ahead(size)
        self._items = self._ahead.take()
        fill = self._ahead.fill
        self.thread = threading.Thread(target=fill, args=(source,), name="prefetch", daemon=True)
        self.thread.start()
        weakref.finalize(self, self._ahead.close)

    def __next__(self) -> Any:
        return next(self._items)

    def size(self) -> int:
        """Count the items that are produced and not taken yet."""
        return len(self._ahead.items)

    def close(self) -> None:
        """End the iterator at once, and the thread at its next item."""
        self._ahead.close()
        self._items.close()
