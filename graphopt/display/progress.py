"""A line on standard error about work that takes longer than two seconds.

A terminal shows one line that counts the seconds and disappears afterwards; other streams get one
line when the two seconds are over, where the caller requests it. Work inside of such work shows no
line of its own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from graphopt.display.terminal import is_terminal

AFTER = 2.0
"""The seconds of silence before progress is shown."""
_busy = threading.Lock()


@contextmanager
def progress(
    describe: Callable[[], str],
    *,
    files: bool = False,
    live: Callable[[float], str] | None = None,
) -> Iterator[None]:
    """Report the work of the block, if it takes long; `describe` is called again for each second.

    With `files` streams that are no terminals get a line as well. `live` gives the line of a
    terminal for the seconds so far; by default it is the description, and the seconds.
    """
    if not (files or is_terminal(sys.stderr)) or not _busy.acquire(blocking=False):
        yield
        return
    done, start = threading.Event(), time.monotonic()

    def report() -> None:
        if done.wait(AFTER):
            return
        text, stream = describe(), sys.stderr
        if stream is None:  # a program without a console
            return
        if not is_terminal(stream):
            print(f"graphopt: {text} ...", file=stream, flush=True)
            return
        while not done.wait(0.5):
            seconds = time.monotonic() - start
            line = f"{describe()}: {seconds:.0f} s" if live is None else live(seconds)
            _write_over(f"graphopt: {line}")
        _write_over("")

    thread = threading.Thread(target=report, name="graphopt-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        if time.monotonic() - start > AFTER:
            thread.join()  # erase the line before anything else is printed
        _busy.release()


def _write_over(text: str) -> None:
    """Replace the line of the terminal by a text."""
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    sys.stderr.write(f"\r\x1b[2K{text[: columns - 1]}")
    sys.stderr.flush()
