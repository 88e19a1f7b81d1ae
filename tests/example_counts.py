"""The number of examples that a property test tries."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 3


def examples(count: int) -> int:
    """`count` in `make test-all` and in a search for new examples, a third of it in `make test`."""
    if settings.get_current_profile_name() == "ci":
        return max(FEWEST, count // 3)
    return count
