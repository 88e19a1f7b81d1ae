"""Progress lines about long work, as flags allow them.

`FLAGS_graphopt_progress=0` and `GLOG_minloglevel=1` (Paddle's log level) switch them off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from graphopt.display.progress import progress
from graphopt.runtime.settings.flags import asks_for_progress, shows_progress

# reasons for a compilation
NEW_PROGRAM = "new program"
CHANGED_PROGRAM = "changed program"
OTHER_FEEDS = "other feeds"
OTHER_FETCHES = "other fetches"
FEED_SHAPE = "other feed shape"
# the steps that a form is compiled for, if a program has two forms
FIRST_STEPS = "the first steps"
LATER_STEPS = "all later steps"
# how to avoid another compilation, by reason
REMEDIES = {
    NEW_PROGRAM: "none: it is the first run of this program",
    CHANGED_PROGRAM: "change a program before its first run",
    OTHER_FEEDS: "feed the same variables in every run",
    OTHER_FETCHES: "fetch the same variables in every run",
    FEED_SHAPE: "feed one size, or few (docs/how-to/many-sizes.md)",
}


@contextmanager
def announce(
    describe: Callable[[], str],
    *,
    files: bool = True,
    live: Callable[[float], str] | None = None,
) -> Iterator[None]:
    """Report the block's work on standard error if it takes long and no flag forbids it.

    `describe` is called only then. Without `files` only a terminal gets the line, unless the flag
    is set to 1. `live` is as for `progress`.
    """
    if not _is_shown():
        yield
        return
    with progress(describe, files=files or asks_for_progress(), live=live):
        yield


def say(text: str) -> None:
    """Print a line on standard error, unless such lines are switched off."""
    if _is_shown() and sys.stderr is not None:
        print(f"graphopt: {text}", file=sys.stderr, flush=True)


def _is_shown() -> bool:
    return shows_progress() and os.environ.get("GLOG_minloglevel", "0") <= "0"
