"""A layered layout: boxes in rows, edges downwards and around the boxes of other rows.

After Sugiyama, Tagawa and Toda (1981): rows by longest paths, joints where an edge passes a row,
rows in the order of the mean position of their neighbors. Then each box moves as near as the widths
allow to its dominator, the last box that all paths to it go through. So a chain goes straight down,
also past the point where branches join.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from graphopt.ir.dialect.clustered_rows import ClusteredRows, Path

GAP, JOINT, WIDEST, SWEEPS = 24.0, 6.0, 1600.0, 8
# weight of a box of the main line when a row is placed; joints and other boxes weigh 1
FIRM = 100.0

Edge = tuple[int, int]


@dataclass
class LayoutNode:
    """A box, or a joint of edges in a row between their ends; `x` is its middle.

    `aside` marks a joint, or a box that is neither fed nor reached from a fed box.
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
        """True for a box that a fed box leads to."""
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
    """Lay out boxes of these widths; an edge leads to a box with a higher number.

    A box that no `fed` box leads to goes one row above its first reader, fed boxes included.
    `paths` are the clusters around each box, if there are any.
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
    """Put each box below the boxes it reads; one without a fed ancestor goes above its readers.

    Returns whether each box is without a fed ancestor.
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
    """Find the last box on all paths to `numbers`, maybe one of them; -1 if there is none."""
    if not numbers:
        return -1
    found = numbers[0]
    for other in numbers[1:]:
        while found != other:  # a dominator has a lower number than the node
            found, other = min(found, other), nodes[max(found, other)].dominator
    return found


def _split_wide_rows(nodes: Sequence[LayoutNode]) -> None:
    """Split each row that is too wide into several rows."""
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
    """Order each row by the mean positions of its neighbors, then assign final positions."""
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
    """Compute the target position of a box in a row whose order is final."""
    if node.dominator >= 0:
        return nodes[node.dominator].x
    return _mean(nodes, node, down=node.joint or node.is_main)


def _mean(nodes: Sequence[LayoutNode], node: LayoutNode, *, down: bool) -> float:
    """Average the positions of the neighbors above (`down`) or below, main-line ones if any."""
    near = [nodes[i] for i in (node.above if down else node.below)]
    near = [other for other in near if not other.aside] or near
    return sum(other.x for other in near) / len(near) if near else node.x


def _spread_row(row: Sequence[LayoutNode], wanted: Sequence[float]) -> None:
    """Place a row, in its order, as near to the wanted positions as the widths allow.

    Weighted least squares, by pooling neighbors that would overlap.
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
