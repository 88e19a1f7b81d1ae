"""`--opt-bisect-limit=N`: only the first N rewrites happen, so a search can find the wrong one.

A rewrite is one instance: one fusion, one folded op. Passes that do not call `take` (xDSL's own)
count as one rewrite each. Nothing is kept between runs: the count starts with `limit_rewrites` and
ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Limit:
    """The numbers of allowed and of requested rewrites, and a hook called with each request."""

    most: int
    report: Callable[[str], None]
    asked: int = 0
    without: frozenset[int] = frozenset()
    """The numbers of rewrites that are suppressed whatever the limit."""

    @property
    def left(self) -> int:
        """The number of rewrites that may still happen; negative without a limit."""
        return -1 if self.most < 0 else max(self.most - self.asked, 0)


_limit: ContextVar[Limit | None] = ContextVar("graphopt_opt_bisect_limit", default=None)


@contextmanager
def limit_rewrites(
    most: int, report: Callable[[str], None] = lambda _: None, *, without: Iterable[int] = ()
) -> Generator[Limit]:
    """Allow `most` rewrites (all when negative), except the numbers in `without`.

    `report` is called with a line about each.
    """
    limit = Limit(most, report, without=frozenset(without))
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


def take(rule: str, where: str) -> bool:
    """Count a rewrite of pass `rule` at the op `where`, and return whether it may happen."""
    limit = _limit.get()
    if limit is None:
        return True
    limit.asked += 1
    allowed = limit.most < 0 or limit.asked <= limit.most
    allowed = allowed and limit.asked not in limit.without
    word = "" if allowed else "NOT "
    limit.report(f"BISECT: {word}running rewrite ({limit.asked}) {rule} on {where}")
    return allowed


def current() -> Limit | None:
    """Return the active limit; None outside of `limit_rewrites`."""
    return _limit.get()
