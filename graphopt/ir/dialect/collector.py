"""No garbage collection while a large graph is built, which contains no garbage yet.

Python's cycle collector looks at all objects again and again as their number grows, which takes
longer than the building itself.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
