"""A layered layout: boxes in rows, edges downwards and around the boxes of other rows.

After Sugiyama, Tagawa and Toda (1981): rows by longest paths, joints where an edge passes a row,
rows in the order of the mean position of their neighbours. Then each box is as near as the widths
allow to the place of its dominator, the last box that all paths to it go through. So a chain goes
straight down, and goes on so where branches join.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from graphopt.ir.dialect.clustered_rows import ClusteredRows, Path

GAP, JOINT, WIDEST, SWEEPS = 24.0, 6.0, 1600.0, 8
# how firmly a box of the main line keeps its place, against joints, and boxes beside it
FIRM = 100.0

Edge = tuple[int, int]


@dataclass
class LayoutNode:
    """A box, or a joint of edges in a row between their ends; `x` is its middle.

    One that is `aside` is a joint, or a box that no fed box leads to.
    """

    width: float
    aside: bool = False
    joint: bool = False
    dominator: int = -1
    row: int = 0
    x: float = 0.0
    above: list[int] = field(default_factory=list[int])
    below: list[int] = field(default_factory=list[int])

    @property
    def is_main(self) -> bool:
        """True for a box that a fed one leads to."""
        return bool(self.above) and not self.aside


@dataclass(frozen=True)
class Layout:
    """The boxes, then the joints, and for each edge the joints that it goes through.

    `paths` are the clusters around each box that have rows of their own.
    """

    nodes: Sequence[LayoutNode]
    joints: Sequence[Sequence[int]]
    paths: Sequence[Path] = ()


def lay_out(
    widths: Sequence[float], edges: Sequence[Edge], fed: Set[int], paths: Sequence[Path] = ()
) -> Layout:
    """The layout of boxes of these widths; an edge leads to a box with a higher number.

    A box that no `fed` one leads to is one row above its first reader, as is a fed one. `paths` are
    the clusters around each box, if there are any.
    """
    nodes = [LayoutNode(width) for width in widths]
    hangs = _set_rows(nodes, edges, fed)
    if any(paths):
        clustered = ClusteredRows(paths, edges, hangs)
        paths = clustered.paths
        for node, row in zip(nodes, clustered.rows, strict=True):
            node.row = row
    _split_wide_rows(nodes)
    joints = _add_joints(nodes, edges)
    rows: list[list[LayoutNode]] = [[] for _ in range(max((n.row for n in nodes), default=-1) + 1)]
    for node in nodes[: len(widths)]:
        rows[node.row].append(node)
    for node in nodes[len(widths) :]:
        rows[node.row].insert(len(rows[node.row]) // 2, node)
    _place(nodes, rows)
    return Layout(nodes, joints, paths)


def _set_rows(nodes: Sequence[LayoutNode], edges: Sequence[Edge], fed: Set[int]) -> list[bool]:
    """Each box is below what it reads; one without fed ones above, near its readers.

    Returns which those are.
    """
    above: list[list[int]] = [[] for _ in nodes]
    below: list[list[int]] = [[] for _ in nodes]
    for start, end in edges:
        above[end].append(start)
        below[start].append(end)
    hangs = [True] * len(nodes)
    for number, node in enumerate(nodes):
        node.row = max((nodes[i].row + 1 for i in above[number]), default=0)
        hangs[number] = all(hangs[i] and i not in fed for i in above[number])
        node.aside = hangs[number] and number not in fed
        node.dominator = _common_dominator(nodes, [i for i in above[number] if not nodes[i].aside])
    for number in reversed(range(len(nodes))):
        if hangs[number] and below[number]:
            nodes[number].row = min(nodes[i].row for i in below[number]) - 1
    return hangs


def _common_dominator(nodes: Sequence[LayoutNode], numbers: Sequence[int]) -> int:
    """The last box that all paths to these go through, -1 for none; it may be one of them."""
    if not numbers:
        return -1
    found = numbers[0]
    for other in numbers[1:]:
        while found != other:  # a dominator has the lower number
            found, other = min(found, other), nodes[max(found, other)].dominator
    return found


def _split_wide_rows(nodes: Sequence[LayoutNode]) -> None:
    """Give the boxes of a row that is too wide several rows below each other."""
    groups: dict[int, list[LayoutNode]] = {}
    for node in nodes:
        groups.setdefault(node.row, []).append(node)
    row = -1
    for _, group in sorted(groups.items()):
        row, width = row + 1, 0.0
        for node in group:
            if width and width + node.width > WIDEST:
                row, width = row + 1, 0.0
            node.row = row
            width += node.width + GAP


def _add_joints(nodes: list[LayoutNode], edges: Sequence[Edge]) -> list[list[int]]:
    """Add a joint to each row that an edge passes; edges from one box share them."""
    known: dict[tuple[int, int], int] = {}
    joints: list[list[int]] = []
    linked: set[Edge] = set()
    for start, end in edges:
        found: list[int] = []
        for row in range(nodes[start].row + 1, nodes[end].row):
            if (start, row) not in known:
                known[start, row] = len(nodes)
                nodes.append(LayoutNode(JOINT, aside=True, joint=True, row=row))
            found.append(known[start, row])
        joints.append(found)
        path = [start, *found, end]
        for link in pairwise(path):
            if link not in linked:
                linked.add(link)
                nodes[link[0]].below.append(link[1])
                nodes[link[1]].above.append(link[0])
    return joints


def _place(nodes: Sequence[LayoutNode], rows: Sequence[list[LayoutNode]]) -> None:
    """Sort the rows by their neighbours, then set their places."""
    for row in rows:
        _spread_row(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            means = {id(node): _mean(nodes, node, down=down) for node in row}
            row.sort(key=lambda node: means[id(node)])
            _spread_row(row, [means[id(node)] for node in row])
    for _ in range(SWEEPS):
        for row in rows:
            _spread_row(row, [_final(nodes, node) for node in row])


def _final(nodes: Sequence[LayoutNode], node: LayoutNode) -> float:
    """The place that a box should have, when the order of its row is settled."""
    if node.dominator >= 0:
        return nodes[node.dominator].x
    return _mean(nodes, node, down=node.joint or node.is_main)


def _mean(nodes: Sequence[LayoutNode], node: LayoutNode, *, down: bool) -> float:
    """The mean place of the neighbours above, on the way down, or below; of the main line first."""
    near = [nodes[i] for i in (node.above if down else node.below)]
    near = [other for other in near if not other.aside] or near
    return sum(other.x for other in near) / len(near) if near else node.x


def _spread_row(row: Sequence[LayoutNode], wanted: Sequence[float]) -> None:
    """Put a row, in its order, as near to the wanted places as the widths allow.

    Least squares with weights, by pooling neighbours that would overlap.
    """
    offsets: list[float] = []
    for number, node in enumerate(row):
        before = row[number - 1]
        step = (before.width + node.width) / 2 + GAP if number else 0.0
        offsets.append(offsets[-1] + step if number else 0.0)
    pools: list[tuple[float, float, int]] = []
    for node, place, offset in zip(row, wanted, offsets, strict=True):
        weight, count = (FIRM if node.is_main else 1.0), 1
        total = (place - offset) * weight
        while pools and pools[-1][0] / pools[-1][1] > total / weight:
            other, heavy, many = pools.pop()
            total, weight, count = total + other, weight + heavy, count + many
        pools.append((total, weight, count))
    places = [total / weight for total, weight, count in pools for _ in range(count)]
    for node, place, offset in zip(row, places, offsets, strict=True):
        node.x = place + offset
