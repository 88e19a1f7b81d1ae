"""Names of the fetches that a tensor array is split into.

An array of known length is fetched as its elements, `a@element0` and so on. Any other array is
fetched as the rows of all its elements, and the number of rows of each element.
"""

from __future__ import annotations

_PART = "@element"


def parts_of(array: str, count: int | None) -> tuple[str, ...]:
    """List the fetches of an array of `count` elements, or of one whose length a run decides."""
    if count is None:
        return f"{array}{_PART}s", f"{array}{_PART}s.rows"
    return tuple(f"{array}{_PART}{position}" for position in range(count))


def array_of(fetch: str) -> str:
    """Return the array that a fetch is a part of; for any other fetch, its own name."""
    return fetch.partition(_PART)[0]
