"""No garbage collection where there is no garbage: while a large graph is built, and at the end.

Python's cycle collector looks at all objects again and again as their number grows, which takes
longer than the building itself.
"""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Generator
from contextlib import contextmanager

# at exit the process frees all its memory, so a search for cycles is wasted time
atexit.register(gc.freeze)


@contextmanager
def paused_collector() -> Generator[None]:
    """Switch the cycle collector off inside the block; also a decorator of functions."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@functools.cache
def keep_imported(package: str) -> None:
    """Move all live objects to the oldest generation, once for each package.

    Called when a large package has been imported: its modules and classes live as long as the
    process, and the collector scans young generations often. Nothing moves if objects are frozen.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()  # moves all objects to the oldest generation
