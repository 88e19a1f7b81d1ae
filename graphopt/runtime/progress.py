"""A line about work that takes longer than two seconds.

A terminal shows one line that counts the seconds; other streams get one line when the two seconds
are over. `FLAGS_graphopt_progress=0` and `GLOG_minloglevel=1` (Paddle's log level) switch it off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from graphopt.runtime.flags import shows_progress

# the reasons for a compilation
NEW_PROGRAM = "new program"
CHANGED_PROGRAM = "changed program"
OTHER_FEEDS = "other feeds"
OTHER_FETCHES = "other fetches"
FEED_SHAPE = "other feed shape"

AFTER = 2.0
"""Seconds of silence."""


@contextmanager
def announced(describe: Callable[[], str]) -> Iterator[None]:
    """Report on standard error what is done here, if it takes long; `describe` is called then."""
    if not shows_progress() or os.environ.get("GLOG_minloglevel", "0") > "0":
        yield
        return
    done, start = threading.Event(), time.monotonic()

    def report() -> None:
        if done.wait(AFTER):
            return
        text, stream = describe(), sys.stderr
        if stream is None:  # a program without a console
            return
        if not stream.isatty():
            print(f"graphopt: {text} ...", file=stream, flush=True)
            return
        while not done.wait(0.5):
            _write_over(f"graphopt: {text}: {time.monotonic() - start:.0f} s")
        _write_over("")

    thread = threading.Thread(target=report, name="graphopt-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        if time.monotonic() - start > AFTER:
            thread.join()  # the line is gone before anything else is printed


def _write_over(text: str) -> None:
    """The text in place of the line of the terminal."""
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    sys.stderr.write(f"\r\x1b[2K{text[: columns - 1]}")
    sys.stderr.flush()
