"""Repetitions in a sequence of numbers: its maximal runs, in time linear but for logarithms.

A run is a stretch with a period that cannot be made longer on either side. The substrings of
lengths 1, 2, 4, ... are numbered, equal ones alike, so that a few comparisons show how far the
sequence agrees at two positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Repetition(NamedTuple):
    """A stretch in which each number equals the number one period before."""

    begin: int
    end: int
    period: int


def runs(items: Iterable[int], fewest: int) -> list[Repetition]:
    """Find the maximal runs of at least `fewest` periods, each with its least period.

    `fewest` is two or more.
    """
    names = _names(np.fromiter(items, np.int64))
    found: dict[tuple[int, int], Repetition] = {}
    around = _Covered(len(names[0]) if names else 0)
    for level, block in enumerate(names):
        for pair in _pairs(block, 1 << level, len(names[0]) // fewest):
            left, right = around.without(*pair, 1 << level)
            ahead, behind = _agreement(names, left, right)
            begin, end, period = left - behind, right + ahead, right - left
            long = end - begin >= fewest * period
            triples = np.stack([begin[long], end[long], period[long]], axis=1)
            for run in map(Repetition._make, np.unique(triples, axis=0).tolist()):
                if (run.begin, run.end) not in found:
                    found[run.begin, run.end] = run
                    around.add(run)
    return list(found.values())


class _Covered:
    """The run that was found last at each place."""

    def __init__(self, length: int) -> None:
        self._end = np.zeros(length, np.int64)
        self._period = np.ones(length, np.int64)

    def add(self, run: Repetition) -> None:
        """Enter a run."""
        self._end[run.begin : run.end] = run.end
        self._period[run.begin : run.end] = run.period

    def without(self, left: Numbers, right: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """Drop pairs of equal positions inside a known run, apart by multiples of its period."""
        known = (right + size <= self._end[left]) & ((right - left) % self._period[left] == 0)
        return left[~known], right[~known]


def _names(items: Numbers) -> list[Numbers]:
    """Number the substrings of 2 ** level items at each position, for each level.

    The levels end where no substring comes twice.
    """
    levels: list[Numbers] = []
    while len(items):
        kinds, names = np.unique(items, return_inverse=True)
        if len(kinds) == len(names):
            break
        levels.append(names)
        half = 1 << (len(levels) - 1)
        items = names[:-half] * len(names) + names[half:]
    return levels


def _pairs(names: Numbers, size: int, longest: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield positions with the same substring of `size` items, as far apart as a period may be.

    In each period of `2 * size` items or more a substring begins at a multiple of `size` and ends
    before the period does. So the first such substring comes again one period later.
    """
    for begin in range(1 if size == 1 else 2 * size, min(4 * size, longest + 1), size):
        periods = np.arange(begin, min(begin + size, longest + 1))
        left = np.arange(0, len(names), size)[:, None]
        right = left + periods
        left, right = (
            np.broadcast_to(left, right.shape)[right < len(names)],
            right[right < len(names)],
        )
        same = names[left] == names[right]
        yield left[same], right[same]


def _agreement(names: list[Numbers], left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """Count the items on which two positions agree, forwards and backwards."""
    ahead, behind = np.zeros_like(left), np.zeros_like(left)
    for level in reversed(range(len(names))):
        block, size = names[level], 1 << level
        ahead += size * _equal(block, left + ahead, right + ahead)
        behind += size * _equal(block, left - behind - size, right - behind - size)
    return ahead, behind


def _equal(block: Numbers, left: Numbers, right: Numbers) -> Numbers:
    """True where both places are in the block and have the same number."""
    inside = (left >= 0) & (right < len(block))
    return inside & (block[np.where(inside, left, 0)] == block[np.where(inside, right, 0)])
