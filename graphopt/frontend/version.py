"""The version that `paddle.__version__` shows: graphopt's own, or Paddle's for its scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OWN = "0.2.0"
# the releases whose names `paddle.*` and `paddle.fluid` follow
PADDLE = "2.6.2"
FLUID = "1.8.5"

_FORM = re.compile(r"\d+(\.\d+){0,3}")
_shown = OWN
_asked = ""  # the version that FLAGS_graphopt_paddle_version requests


def version() -> str:
    """Return the version that `paddle.__version__` shows now."""
    return _shown


def version_hint(error: BaseException) -> str | None:
    """Compose advice for a script that needs another release of Paddle; None for other errors."""
    text = str(error).lower()
    if _shown == OWN or not ("paddle" in text and "version" in text):
        return None
    return (
        f"paddle.__version__ is {version()} in this script; "
        "set another version with FLAGS_graphopt_paddle_version=2.4.2 in the environment"
    )


@contextmanager
def of_a_script(uses_fluid: bool) -> Iterator[None]:
    """Show the version whose names a script uses, or the flag's, instead of graphopt's own."""
    # only scripts need the flags; `graphopt.__version__` is fast without them
    from graphopt.runtime.settings.flags import paddle_version

    global _shown, _asked
    before, _asked = (_shown, _asked), paddle_version()
    _shown = _asked or (FLUID if uses_fluid else PADDLE)
    try:
        yield
    finally:
        _shown, _asked = before


def now_fluid() -> None:
    """Switch to fluid's version when a script first imports fluid, unless the flag sets one."""
    global _shown
    if _shown == PADDLE and not _asked:
        _shown = FLUID


def _parts(given: Any, name: str) -> list[int]:
    if not isinstance(given, str):
        raise TypeError(f"require_version(): '{name}' must be a str, found {given!r}")
    if not _FORM.fullmatch(given):
        raise ValueError(f"require_version(): '{name}' should look like '1.8.5', found '{given}'")
    numbers = [int(part) for part in given.split(".")]
    return numbers + [0] * (4 - len(numbers))


def require(own: str, min_version: str, max_version: str | None) -> None:
    """Raise Exception unless a version is in the range: the flag's version, by default `own`."""
    low = _parts(min_version, "min_version")
    high = None if max_version is None else _parts(max_version, "max_version")
    own = _asked or own
    numbers = _parts(own, "version")
    if low > numbers or (high is not None and numbers > high):
        wanted = (
            f"from {min_version} to {max_version}" if max_version else f"{min_version} or later"
        )
        raise Exception(
            f"require_version(): Paddle {wanted} is required, but these are the names of {own}"
        )
