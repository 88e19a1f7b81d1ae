"""The number of examples that a property test tries, and the share of other cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from hypothesis import settings

FEWEST = 3
T = TypeVar("T")


def is_short() -> bool:
    """Return True in `make test`, and False in `make test-all` and in a search for new examples."""
    return settings.get_current_profile_name() == "ci"


def examples(count: int) -> int:
    """Return `count`, or a third of it in `make test`."""
    return max(FEWEST, count // 3) if is_short() else count


def share(cases: Iterable[T], every: int = 3) -> Iterator[T]:
    """Return all cases, or one out of `every` in `make test`."""
    return islice(cases, 0, None, every if is_short() else 1)
