"""The names under which the parts of a tensor array are fetched.

An array whose length is known is fetched as its elements, `a@element0` and so on; another one as
all rows of all elements, and the number of rows of each.
"""

from __future__ import annotations

_PART = "@element"


def parts_of(array: str, count: int | None) -> tuple[str, ...]:
    """The parts of an array of `count` elements, or of one whose length a run decides."""
    if count is None:
        return f"{array}{_PART}s", f"{array}{_PART}s.rows"
    return tuple(f"{array}{_PART}{position}" for position in range(count))


def array_of(fetch: str) -> str:
    """The array of a part; the name itself if it is none."""
    return fetch.partition(_PART)[0]
