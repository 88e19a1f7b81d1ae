"""Near misses: matches with one flaw, found by the same matcher as the fusions.

For each op that could end a pattern, a tolerant match allows one flaw and keeps it as the reason. A
pattern without its last op is a near miss too: the reader is the wrong op. There is no near miss
without the ops that define a pattern, such as the product of a linear layer. The same ops are one
near miss for all rules of a pass together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.traits import Elementwise
from graphopt.passes.engine.fusion import Fusion, refusal
from graphopt.passes.engine.matching import matches
from graphopt.passes.engine.naming import how_used, show_op, source_line
from graphopt.passes.engine.pattern import Match, Node, Reason, Result

TAKEN = "taken"
"""The name of the reason for a whole pattern whose ops another pass took."""


@dataclass(frozen=True)
class NearMiss:
    """A pattern that matches at an op but for one flaw."""

    rule: str
    anchor: str
    reason: Reason
    location: str
    had: bool = False
    """True if another pass took its ops, so that nothing remained to fuse."""


class NearMisses:
    """The near misses of a module, collected before a sweep; `left` lists those that remain.

    `ahead` are the rules of later sweeps: whole patterns of theirs that this sweep takes are
    reported. The later sweep gets this object as `before`; it reports neither these patterns nor
    patterns with ops that this sweep made.
    """

    def __init__(
        self,
        module: ModuleOp,
        rules: Sequence[tuple[str, Fusion]],
        ahead: Sequence[tuple[str, Fusion]] = (),
        before: NearMisses | None = None,
    ) -> None:
        self._had: set[tuple[str, Operation]] = set() if before is None else before._had
        self._made: set[Operation] = set() if before is None else before._made
        self._flawed: dict[tuple[str, Operation], NearMiss] = {}
        # whole patterns, with the reason to decline, if any; also those that another pass takes
        self._whole: dict[tuple[str, Operation], NearMiss] = {}
        # whole patterns of later rules, with all of their ops
        self._ahead: dict[tuple[str, Operation], tuple[NearMiss, list[PdOp]]] = {}
        self._takers: dict[Operation, str] = {}
        self._declined: set[tuple[str, Operation]] = set()
        self._rank = {name: rank for rank, (name, _) in reversed([*enumerate(rules)])}
        # (rule, op) for each op of a reported pattern, whole or flawed
        self._reported: set[tuple[str, Operation]] = set()
        ops = _Ops(module)
        for name, rule in rules:
            # last ops first: a smaller pattern inside a larger one is the same place
            for op in reversed(ops.ending(rule.root, rule.defining)):
                if (name, op) not in self._reported:
                    self._find_whole(name, rule, op)
        # a sweep without whole patterns takes nothing from later sweeps
        for name, rule in ahead if self._whole else ():
            for op in ops.ending(rule.root, rule.defining):
                self._find_ahead(name, rule, op)
        self._find_flawed(rules, ops)
        for name, rule in rules:
            if rule.part is not None:
                for op in ops.ending(rule.part.root, rule.part.defining):
                    self._find_part(name, rule, rule.part, op)

    def _find_ahead(self, name: str, rule: Fusion, op: PdOp) -> None:
        whole = next(matches(rule.root, op), None)
        if whole is not None and refusal(rule, whole) is None:
            miss = NearMiss(name, show_op(op), Reason(TAKEN, ""), source_line(op.location), True)
            self._ahead.setdefault((name, op), (miss, [*whole.ops.values()]))

    def _find_whole(self, name: str, rule: Fusion, op: PdOp) -> None:
        whole = list(matches(rule.root, op))
        if whole:
            reasons = [refusal(rule, match) for match in whole]
            refused = None if None in reasons else reasons[0]
            self._note(self._whole, name, op, refused or Reason(TAKEN, ""))
            self._reported.update((name, inner) for inner in whole[0].ops.values())

    def _find_flawed(self, rules: Sequence[tuple[str, Fusion]], ops: _Ops) -> None:
        """Record flawed matches; of several with the same ops, only the nearest."""
        near: list[tuple[str, Fusion, Match]] = []
        for name, rule in rules:
            taken = {op for key, op in self._reported if key == name}
            found = [_flaw(rule, op) for op in ops.ending(rule.root, rule.defining, taken, 1)]
            for node in _below_end(rule):
                ends = ops.ending(node, rule.defining, taken)
                found += [_without_end(rule, node, op) for op in ends]
            near += [
                (name, rule, flawed)
                for flawed in found
                if flawed is not None
                and not {(name, flawed.root)} & (self._reported | self._had)
                and self._made.isdisjoint(flawed.ops.values())
            ]
        for name, rule, flawed in sorted(near, key=lambda each: _closeness(each[2])):
            places = [flawed.get(node) for node in rule.defining]
            if self._reported.isdisjoint((name, op) for op in places if op is not None):
                assert flawed.missed is not None
                self._note(self._flawed, name, flawed.root, flawed.missed)
                self._reported.update((name, inner) for inner in flawed.ops.values())

    def _find_part(self, name: str, rule: Fusion, part: Fusion, op: PdOp) -> None:
        found = next(matches(part.root, op), None) if (name, op) not in self._reported else None
        reason = rule.lacking(found) if found is not None else None
        if reason is not None:
            self._note(self._flawed, name, op, reason)

    def _note(
        self, into: dict[tuple[str, Operation], NearMiss], name: str, op: PdOp, reason: Reason
    ) -> None:
        line = source_line(op.location)
        into.setdefault((name, op), NearMiss(name, show_op(op), reason, line))

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Record the ops that a pass replaces; called by the sweep."""
        self._takers.update(dict.fromkeys(ops, rule))
        self._made.update(made)

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Record a declined match, which is whole and so no near miss; called by the sweep."""
        self._declined.add((rule, op))

    def left(self) -> list[NearMiss]:
        """List near misses whose op no larger fusion took, and patterns another pass took."""
        found = [
            miss
            for (name, op), miss in self._flawed.items()
            if op not in self._takers or self._rank[name] < self._rank[self._takers[op]]
        ]
        for (name, op), miss in self._whole.items():
            taker = self._takers.get(op)
            if taker in (None, name) or (name, op) in self._declined:
                continue
            fix = f"switch off {taker} to have this fusion"
            taken = Reason(TAKEN, f"{taker} took the ops", fix)
            reason = taken if miss.reason.name == TAKEN else miss.reason
            found.append(replace(miss, reason=reason, had=True))
        for key, (miss, ops) in self._ahead.items():
            taker = next((self._takers[op] for op in ops if op in self._takers), None)
            if taker is not None:
                self._had.add(key)
                reason = Reason(TAKEN, f"{taker} took the ops", f"none: {taker} runs first")
                found.append(replace(miss, reason=reason))
        return found


class _Ops:
    """The ops of a module by type, and those that may end a pattern."""

    def __init__(self, module: ModuleOp) -> None:
        self._numbers = {op: n for n, op in enumerate(module.walk()) if isinstance(op, PdOp)}
        self._of_type: dict[type[Operation], list[PdOp]] = {}
        self._readers: dict[PdOp, set[PdOp]] = {}
        for op in self._numbers:
            self._of_type.setdefault(type(op), []).append(op)
            uses = [use for result in op.results for use in result.uses]
            self._readers[op] = {use.operation for use in uses if isinstance(use.operation, PdOp)}

    def ending(
        self,
        root: Node,
        defining: Sequence[Node] = (),
        taken: Collection[Operation] = (),
        between: int = 0,
    ) -> list[PdOp]:
        """List the ops that may end a pattern, in their order.

        Each of its `defining` ops, except those `taken`, must be as near to such an op as in the
        pattern, with at most `between` other ops in between.
        """
        found = {op for kind in root.last_types() for op in self._of_type.get(kind, ())}
        for node in defining:
            steps = _distance(root, node)
            if steps is not None:
                found &= self._behind(node, taken, steps + between)
        return sorted(found, key=self._numbers.__getitem__)

    def _behind(self, node: Node, taken: Collection[Operation], steps: int) -> set[PdOp]:
        """Collect the ops of a node's types and their readers, over at most `steps` steps."""
        last = {op for kind in node.types for op in self._of_type.get(kind, ())}.difference(taken)
        found = set(last)
        for _ in range(steps):
            last = set[PdOp]().union(*(self._readers[op] for op in last)) - found
            found |= last
        return found


@cache
def _distance(root: Node, node: Node) -> int | None:
    """Compute the most steps from a pattern's end down to a node; None if it is not below."""
    if root is node:
        return 0
    holes = (*root.operands, *((root.instead,) if root.instead is not None else ()))
    below = (hole.node if isinstance(hole, Result) else hole for hole in holes)
    found = [_distance(other, node) for other in below if isinstance(other, Node)]
    return max((1 + steps for steps in found if steps is not None), default=None)


def _flaw(rule: Fusion, op: PdOp) -> Match | None:
    """Find the nearest match with one flaw that ends at `op` and has the defining ops."""
    every = matches(rule.root, op, tolerant=True)
    flawed = [match for match in islice(every, _MOST_WAYS) if _is_about(match, rule)]
    return min(flawed, key=_closeness) if flawed else None


# The most flawed matches to rank; large patterns have many.
_MOST_WAYS = 1000
_CLOSE = (
    "",
    "op-between",
    "other-result",
    "other-block",
    "other-op",
    "not-computed",
    "other-value",
)


def _closeness(match: Match) -> int:
    """Rank a flawed match, 0 is best: an extra op is nearer to the pattern than a wrong op."""
    name = match.missed.name if match.missed is not None else ""
    return _CLOSE.index(name) if name in _CLOSE else len(_CLOSE)


def _is_about(match: Match, rule: Fusion) -> bool:
    """True when the defining ops are present, if in the wrong region or read wrongly."""
    there = match.missed is not None and match.missed.name in ("other-block", "other-result")
    return there or match.ops.keys() >= set(rule.defining)


def _below_end(rule: Fusion) -> list[Node]:
    """List the nodes that the last op of a pattern reads, unless it defines the pattern."""
    if rule.root in rule.defining:
        return []
    return [node for node in rule.root.operands if isinstance(node, Node)]


def _without_end(rule: Fusion, node: Node, op: PdOp) -> Match | None:
    """Match a pattern without its last op, ending at `op` as `node`; the reader is the flaw."""
    found = next(matches(node, op), None)
    if found is None or not found.ops.keys() >= set(rule.defining):
        return None
    value, root = op.results[0], rule.root
    users = [use.operation for use in value.uses]
    # a reader of the right kind is reported itself; one of an unrelated kind is no near miss
    if any(type(user) in root.types for user in users) or not any(
        _could_be(user, root) for user in users
    ):
        return None
    wanted = f"`{node.name}` should be read by {root.expected}, but is {_readers(value)}"
    found.missed = Reason("other-reader", wanted, f"let {root.expected} read `{node.name}`")
    return found


def _could_be(op: Operation, node: Node) -> bool:
    """True for an op that may stand for `node`: of its kind, with as many operands."""
    if not all(kind.has_trait(Elementwise) for kind in node.types):
        return isinstance(op, PdOp)
    is_alike = op.has_trait(Elementwise) or type(op).__module__ in _families(node)
    return is_alike and len(op.operands) == len(node.operands)


def _families(node: Node) -> set[str]:
    return {kind.__module__ for kind in node.types}


def _readers(value: SSAValue) -> str:
    uses = list(value.uses)
    first = how_used(uses[0].operation, uses[0].index).removeprefix("also ")
    return first if len(uses) == 1 else f"{first}, and {len(uses) - 1} more"
