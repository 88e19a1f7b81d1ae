"""Measured costs of a program's padded sizes: of compiling one, and of padding to a larger one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import prod

Sizes = Mapping[str, int]
"""The size of each padded dimension."""
OFTEN = 64
"""The times that a size is wanted before it is compiled where no measured time may decide."""


class SizeCosts:
    """The seconds that compiling a size of one program takes, and that padding has taken.

    It is the ski-rental problem: padding to a larger size is rent, and a compilation buys. Whoever
    rents until that has cost as much as buying pays at most twice what would have been best.
    """

    def __init__(self) -> None:
        self._compiling = 0.0
        self._times: Counter[tuple[tuple[str, int], ...]] = Counter()
        self._wasted: defaultdict[tuple[tuple[str, int], ...], float] = defaultdict(float)

    def note_compiled(self, seconds: float) -> None:
        """A first step of a size, which compiled it, took so long.

        The shortest counts: the first one of a process also imports what it needs.
        """
        self._compiling = min(self._compiling or seconds, seconds)

    def ran(self, seconds: float, wanted: Sizes, used: Sizes) -> None:
        """A step took so long; the share of the work that is beyond the wanted size was wasted."""
        self._times[_key(wanted)] += 1
        share = 1 - prod(wanted.values()) / prod(used.values())
        self._wasted[_key(wanted)] += seconds * share

    def pays(self, wanted: Sizes, patience: float) -> bool:
        """True once more than `patience` times the seconds of a compilation were wasted."""
        return self._wasted[_key(wanted)] > patience * self._compiling

    def came_often(self, wanted: Sizes, patience: float) -> bool:
        """True once the size was wanted more than `patience` times OFTEN: the same in every run."""
        return self._times[_key(wanted)] > patience * OFTEN


def _key(sizes: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))
