"""The cheapest cut of a directed graph between a source and a sink (Edmonds and Karp, 1972)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
UNCUT = 1 << 62
"""The capacity of an edge that no cut may contain."""


def source_side(edges: Mapping[tuple[Node, Node], int], source: Node, sink: Node) -> set[Node]:
    """Find the source side of a minimum cut, with as few nodes as possible.

    `edges` are capacities, integers from 0. Raise ValueError if every cut has an UNCUT edge in it.
    """
    room: dict[Node, dict[Node, int]] = {source: {}, sink: {}}
    for (start, end), capacity in edges.items():
        room.setdefault(start, {})[end] = capacity
        room.setdefault(end, {}).setdefault(start, 0)
    while True:
        before = _shortest_paths(room, source)
        if sink not in before:
            return set(before)
        steps: list[tuple[Node, Node]] = []
        at = sink
        while at != source:
            steps.append((before[at], at))
            at = before[at]
        flow = min(room[start][end] for start, end in steps)
        if flow >= UNCUT:
            raise ValueError(f"no cut separates {source!r} from {sink!r}")
        for start, end in steps:
            room[start][end] -= flow
            room[end][start] += flow


def _shortest_paths(room: Mapping[Node, Mapping[Node, int]], source: Node) -> dict[Node, Node]:
    """Find the nodes that flow can reach; map each to its predecessor on a shortest path."""
    before = {source: source}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for other, left in room[node].items():
            if left > 0 and other not in before:
                before[other] = node
                waiting.append(other)
    return before
