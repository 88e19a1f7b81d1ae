"""Rows for boxes in clusters: no box outside a cluster shares a row with a box inside it.

A cluster, nested clusters included, is drawn as a frame around its rows, so no other box may be in
them. From outside, a cluster acts as one tall box. A cluster that a path of edges leaves and enters
again cannot be placed so; it is dissolved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

Path = tuple[int, ...]
"""The clusters around a box, outermost first."""
_Unit = tuple[bool, int]
"""A cluster, as True and its number, or a single box, as False and its number."""


class ClusteredRows:
    """The row of each box, and its path without the dissolved clusters.

    An edge leads to a box with a higher number. A box that `hangs` goes just above its first
    reader.
    """

    def __init__(
        self, paths: Sequence[Path], edges: Sequence[tuple[int, int]], hangs: Sequence[bool]
    ) -> None:
        self.paths = [*paths]
        self.rows = [0] * len(paths)
        self._hangs = hangs
        self._readers: list[list[int]] = [[] for _ in paths]
        for start, end in edges:
            self._readers[start].append(end)
        self._place(range(len(paths)), 0, 0)

    def _place(self, members: Sequence[int], depth: int, row: int) -> int:
        """Assign rows to boxes whose paths agree up to this depth; return the next free row."""
        levels = self._levels(members, depth)
        while levels is None:
            levels = self._levels(members, depth)
        inside: defaultdict[_Unit, list[int]] = defaultdict(list)
        for number in members:
            inside[self._unit(number, depth)].append(number)
        for level in sorted({*levels.values()}):
            units = [unit for unit in inside if levels[unit] == level]
            alone = [number for is_cluster, number in units if not is_cluster]
            for number in alone:
                self.rows[number] = row
            row += bool(alone)
            for unit in units:
                if unit[0]:
                    row = self._place(inside[unit], depth + 1, row)
        return row

    def _unit(self, number: int, depth: int) -> _Unit:
        path = self.paths[number]
        return (True, path[depth]) if len(path) > depth else (False, number)

    def _levels(self, members: Sequence[int], depth: int) -> dict[_Unit, int] | None:
        """Compute the level of each unit: the longest path to it.

        On a cycle, dissolves a cluster and returns None.
        """
        unit_of = {number: self._unit(number, depth) for number in members}
        below: dict[_Unit, dict[_Unit, None]] = {unit: {} for unit in unit_of.values()}
        hangs = dict.fromkeys(below, True)
        for number, unit in unit_of.items():
            hangs[unit] &= self._hangs[number]
            readers = (unit_of[reader] for reader in self._readers[number] if reader in unit_of)
            below[unit].update((reader, None) for reader in readers if reader != unit)
        order = _sort_units(below)
        if len(order) < len(below):
            done = {*order}
            self._dissolve(next(unit[1] for unit in below if unit[0] and unit not in done))
            return None
        levels = dict.fromkeys(order, 0)
        for unit in order:
            for reader in below[unit]:
                levels[reader] = max(levels[reader], levels[unit] + 1)
        for unit in reversed(order):
            if hangs[unit] and below[unit]:
                levels[unit] = min(levels[reader] for reader in below[unit]) - 1
        return levels

    def _dissolve(self, cluster: int) -> None:
        self.paths = [tuple(each for each in path if each != cluster) for path in self.paths]


def _sort_units(below: dict[_Unit, dict[_Unit, None]]) -> list[_Unit]:
    """Sort units topologically; leave out units on a cycle or after one."""
    waits = dict.fromkeys(below, 0)
    for readers in below.values():
        for reader in readers:
            waits[reader] += 1
    order = [unit for unit, count in waits.items() if not count]
    for unit in order:
        for reader in below[unit]:
            waits[reader] -= 1
            if not waits[reader]:
                order.append(reader)
    return order
