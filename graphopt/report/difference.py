"""The difference of two programs: ops that are the same, fused, changed, moved, gone and new.

Ops are aligned in program order, once by the names of their results and once by their types: a new
layer in between changes the numbers in all later names. The alignment with more equal ops is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from graphopt.display.table import Column, Page, Shown, Table
from graphopt.display.units import several
from graphopt.report.graph import FED, FETCHED, OP, Graph, GraphNode

Key = Callable[[GraphNode], Hashable]
FUSED, CHANGED, MOVED, GONE, NEW = "fused", "changed", "moved", "gone", "new"
# the most characters of an attribute, and the most places of like changes, in a row
_LONGEST, _MOST = 60, 3
# draws are numbered in program order, so a new one changes the numbers of later ones
_NUMBERS_OF_DRAWS = frozenset({"rng_id", "other_rng_id"})


@dataclass(frozen=True)
class Change:
    """Ops of the first program, the ops that replace them in the second, and their difference."""

    kind: str
    before: tuple[GraphNode, ...]
    after: tuple[GraphNode, ...]
    words: str = ""


@dataclass(repr=False)
class ProgramDifference(Shown):
    """The difference of two programs, which prints itself."""

    before: Graph
    after: Graph
    aligned: list[tuple[GraphNode, GraphNode]] = field(
        default_factory=list[tuple[GraphNode, GraphNode]]
    )
    """The pairs of ops of one kind in the same place."""
    changes: list[Change] = field(default_factory=list[Change])
    ports: list[str] = field(default_factory=list[str])
    """Sentences about feeds, fetches and state."""

    @property
    def same(self) -> int:
        """The number of ops that are the same."""
        return len(self.aligned) - sum(change.kind == CHANGED for change in self.changes)

    def mark(self) -> None:
        """Note each change at its nodes, in both graphs."""
        for change in self.changes:
            words = change.words or _replacement(change)
            for node in (*change.before, *change.after):
                node.change, node.difference = change.kind, words

    @property
    def is_empty(self) -> bool:
        """True for two programs of the same ops, feeds, fetches and state."""
        return not self.changes and not self.ports

    def page(self) -> Page:
        """Build a page: the counts, then a table for each kind of change."""
        return Page([self._head(), *map(self._table, (FUSED, CHANGED, MOVED, GONE, NEW))])

    def _head(self) -> str:
        counts = Counter(change.kind for change in self.changes)
        found = [f"{counts[kind]} {kind}" for kind in (FUSED, CHANGED, MOVED, GONE, NEW)]
        shown = [text for text in found if not text.startswith("0 ")]
        before, after = (sum(n.kind == OP for n in g.nodes) for g in (self.before, self.after))
        ops = f"{several(before, 'op')} before, {after} after: {self.same} the same"
        return "\n".join([", ".join([ops, *shown]), *self.ports])

    def _table(self, kind: str) -> Table:
        """Build a table: a row for each group of like changes, with their number and the first."""
        groups: dict[tuple[str, str, str], list[Change]] = {}
        for change in self.changes:
            if change.kind == kind:
                key = (_kinds(change.before), _kinds(change.after), change.words)
                groups.setdefault(key, []).append(change)
        rows: list[list[str]] = []
        for (before, after, words), group in groups.items():
            first = (group[0].after or group[0].before)[0]
            what = before if before == after or not after else f"{before} -> {after}".strip(" ->")
            places = _places(self.after if group[0].after else self.before, group)
            rows.append([f"{len(group)} x", what or after, words, places, first.result, first.line])
        columns = (
            Column(right=True), Column("op", wraps=True), Column("difference", wraps=True),
            Column("in", wraps=True), Column("first"), Column("line"),
        )  # fmt: skip
        return Table(columns, rows, kind if rows else "")


def difference(before: Graph, after: Graph) -> ProgramDifference:
    """Compare two programs."""
    by_name = _difference(before, after, lambda node: (node.name, node.result))
    by_type = _difference(before, after, lambda node: (node.name, tuple(node.types)))
    return by_type if by_type.same > by_name.same else by_name


def _difference(before: Graph, after: Graph, key: Key) -> ProgramDifference:
    """Compare two programs whose ops are aligned by a key."""
    old, new = _ops(before), _ops(after)
    found = ProgramDifference(before, after, ports=list(_port_changes(before, after)))
    gone: list[GraphNode] = []
    added: list[GraphNode] = []
    for tag, left, right in _align(old, new, key):
        if tag == "equal":
            for a, b in zip(left, right, strict=True):
                _compare(found, a, b)
        else:
            _find_replaced(found, left, right, gone, added)
    _find_moved(found, gone, added)
    return found


def _ops(graph: Graph) -> list[GraphNode]:
    return [node for node in graph.nodes if node.kind == OP]


def _align(
    old: Sequence[GraphNode], new: Sequence[GraphNode], key: Key
) -> Iterator[tuple[str, Sequence[GraphNode], Sequence[GraphNode]]]:
    """Yield the stretches that have equal keys, and those between."""
    matcher = SequenceMatcher(None, [*map(key, old)], [*map(key, new)], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        yield tag, old[i:j], new[k:m]


def _compare(found: ProgramDifference, a: GraphNode, b: GraphNode) -> None:
    """Compare two aligned ops of one kind."""
    found.aligned.append((a, b))
    words = "; ".join(_facts(a, b))
    if words:
        found.changes.append(Change(CHANGED, (a,), (b,), words))


def changed_attributes(a: GraphNode, b: GraphNode) -> Iterator[str]:
    """Describe the attributes that differ of two ops of one kind."""
    for name in sorted({*a.attributes, *b.attributes} - _NUMBERS_OF_DRAWS):
        before, after = a.attributes.get(name), b.attributes.get(name)
        if before != after:
            yield f"{name} {brief(before)} -> {brief(after)}"


def _facts(a: GraphNode, b: GraphNode) -> Iterator[str]:
    """Describe the attributes and types that differ."""
    yield from changed_attributes(a, b)
    if len(a.types) != len(b.types):
        yield f"{several(len(a.types), 'result')} -> {len(b.types)}"
        return
    changed = [(old, new) for old, new in zip(a.types, b.types, strict=True) if old != new]
    if changed:
        more = f", and {several(len(changed) - 1, 'more result')}" if len(changed) > 1 else ""
        yield f"{changed[0][0]} -> {changed[0][1]}{more}"


def brief(attribute: str | None) -> str:
    """Shorten an attribute; of a long list, such as all parameters, give the number of items."""
    if attribute is None:
        return "default"
    if len(attribute) <= _LONGEST:
        return attribute
    if attribute.startswith("(") and attribute.endswith(")"):
        return f"({several(attribute.count(',') + 1, 'item')})"
    return f"{attribute[:_LONGEST]}…"


def _places(graph: Graph, changes: Sequence[Change]) -> str:
    """List the layers and blocks of these changes, without the ops in them."""
    clusters = [(change.after or change.before)[0].cluster for change in changes]
    labels = [graph.clusters[at].label.partition(":")[0] for at in clusters if at >= 0]
    found = [*dict.fromkeys(labels)]
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return ", ".join(found[:_MOST]) + more


def _find_replaced(
    found: ProgramDifference,
    left: Sequence[GraphNode],
    right: Sequence[GraphNode],
    gone: list[GraphNode],
    added: list[GraphNode],
) -> None:
    """Find ops in the place of others: fused ones take the ops before them."""
    for tag, old, new in _align(left, right, lambda node: node.name):
        if tag == "equal":
            for a, b in zip(old, new, strict=True):
                _compare(found, a, b)
            continue
        rest = list(old)
        for node in new:
            taken = _fused_by(node, rest)
            if taken:
                found.changes.append(Change(FUSED, tuple(taken), (node,)))
                rest = rest[len(taken) :]
            else:
                added.append(node)
        gone += rest


def _fused_by(node: GraphNode, rest: Sequence[GraphNode]) -> Sequence[GraphNode]:
    """Find the ops that an op replaces: those up to the op with its result."""
    for number, other in enumerate(rest, 1):
        if other.types[:1] == node.types[:1] and node.result in ("", other.result):
            return rest[:number] if number > 1 else ()
    return ()


def _find_moved(
    found: ProgramDifference, gone: Sequence[GraphNode], added: Sequence[GraphNode]
) -> None:
    """Pair removed ops with added ones of the same identity: these have moved."""
    left = list(added)
    for node in gone:
        twin = next((other for other in left if _identity(other) == _identity(node)), None)
        if twin is None:
            found.changes.append(Change(GONE, (node,), ()))
        else:
            left.remove(twin)
            words = "; ".join(_facts(node, twin))
            found.changes.append(Change(MOVED, (node,), (twin,), words))
    found.changes += [Change(NEW, (), (node,)) for node in left]


def _identity(node: GraphNode) -> Hashable:
    return node.name, node.result, tuple(node.types)


def _replacement(change: Change) -> str:
    """List the ops before and after a fusion; "" for other changes."""
    before, after = _kinds(change.before), _kinds(change.after)
    return f"{before} -> {after}" if change.kind == FUSED else ""


def _kinds(nodes: Sequence[GraphNode]) -> str:
    return " + ".join(node.name for node in nodes)


def _port_changes(before: Graph, after: Graph) -> Iterator[str]:
    """Write sentences about feeds, fetches and state that only one program has."""
    for word, names in (
        (FED, lambda g: _ports(g, FED)),
        (FETCHED, lambda g: _ports(g, FETCHED)),
        ("state", _state),
    ):
        old, new = names(before), names(after)
        for verb, left in (("gone", old - new), ("new", new - old)):
            if left:
                listed = ", ".join(sorted(left)[:8])
                more = f" and {len(left) - 8} more" if len(left) > 8 else ""
                yield f"{word} {verb}: {listed}{more}"


def _ports(graph: Graph, kind: str) -> set[str]:
    return {f"{n.name} {' '.join(n.types)}" for n in graph.nodes if n.kind == kind}


def _state(graph: Graph) -> set[str]:
    return {text for node in graph.nodes for text in node.state}
