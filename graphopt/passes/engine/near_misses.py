"""Near misses: matches with one flaw, found by the same matcher as the fusions.

For each op that could end a pattern, a tolerant match allows one flaw and keeps it as the reason.
A pattern without its last op is a near miss too: the reader is the wrong op. Without the ops that
define a pattern, as the product does a linear layer, there is no near miss, and the same ops are
one for all rules of a pass together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.fusion import Fusion, refusal
from graphopt.passes.engine.matching import matches
from graphopt.passes.engine.naming import how_used, show_op, source_line
from graphopt.passes.engine.pattern import Match, Node, Reason

TAKEN = "taken"
"""The reason of a whole pattern that another pass took."""


@dataclass(frozen=True)
class NearMiss:
    """A pattern that matches at an op but for one flaw."""

    rule: str
    anchor: str
    reason: Reason
    location: str


class NearMisses:
    """The near misses of a module, collected before a sweep; `left` says which of them remain.

    `ahead` are the rules of later sweeps: whole patterns that this sweep takes from them are
    reported. They are no near misses of the later one, which has this object as `before`, and
    neither are patterns with ops that this sweep made.
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
        # whole patterns: those that another pass takes are reported as well, each with the reason
        # against it where there is one
        self._whole: dict[tuple[str, Operation], NearMiss] = {}
        # whole patterns of rules ahead, with all of their ops
        self._ahead: dict[tuple[str, Operation], tuple[NearMiss, list[PdOp]]] = {}
        self._takers: dict[Operation, str] = {}
        self._rank = {name: rank for rank, (name, _) in reversed([*enumerate(rules)])}
        ops = [op for op in module.walk() if isinstance(op, PdOp)]
        for name, rule in ahead:
            for op in ops:
                whole = next(matches(rule.root, op), None)
                if whole is not None and refusal(rule, whole) is None:
                    miss = NearMiss(name, show_op(op), Reason(TAKEN, ""), source_line(op.location))
                    self._ahead.setdefault((name, op), (miss, [*whole.ops.values()]))
        # the ops of the patterns of a pass, whole or not
        reported: set[tuple[str, Operation]] = set()
        for name, rule in rules:
            for op in ops:
                whole = list(matches(rule.root, op))
                if whole:
                    reasons = [refusal(rule, match) for match in whole]
                    refused = None if None in reasons else reasons[0]
                    self._note(self._whole, name, op, refused or Reason(TAKEN, ""))
                    reported.update((name, inner) for inner in whole[0].ops.values())
        near: list[tuple[str, Fusion, Match]] = []
        for name, rule in rules:
            for op in ops:
                if (name, op) in self._whole or (name, op) in self._had:
                    continue
                flawed = _flaw(rule, op) or _without_end(rule, op)
                if flawed is not None and self._made.isdisjoint(flawed.ops.values()):
                    near.append((name, rule, flawed))
        # of several for the same ops the nearest
        for name, rule, flawed in sorted(near, key=lambda each: _closeness(each[2])):
            places = [flawed.get(node) for node in rule.defining]
            if reported.isdisjoint((name, op) for op in places if op is not None):
                assert flawed.missed is not None
                self._note(self._flawed, name, flawed.root, flawed.missed)
                reported.update((name, inner) for inner in flawed.ops.values())
        for name, rule in rules:
            for op in ops if rule.part is not None else ():
                found = next(matches(rule.part.root, op), None) if rule.part is not None else None
                if found is None or (name, op) in reported:
                    continue
                reason = rule.lacking(found)
                if reason is not None:
                    self._note(self._flawed, name, op, reason)

    def _note(
        self, into: dict[tuple[str, Operation], NearMiss], name: str, op: PdOp, reason: Reason
    ) -> None:
        line = source_line(op.location)
        into.setdefault((name, op), NearMiss(name, show_op(op), reason, line))

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Called by the sweep: a pass replaces these ops."""
        self._takers.update(dict.fromkeys(ops, rule))
        self._made.update(made)

    def refused(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Called by the sweep; a declined match is whole, and so no near miss."""

    def left(self) -> list[NearMiss]:
        """The near misses at ops that no larger fusion took; patterns that another pass took."""
        found = [
            miss
            for (name, op), miss in self._flawed.items()
            if op not in self._takers or self._rank[name] < self._rank[self._takers[op]]
        ]
        for (name, op), miss in self._whole.items():
            taker, reason = self._takers.get(op), miss.reason
            if taker not in (None, name):
                if reason.name == TAKEN:
                    fix = f"switch off {taker} to have this one"
                    reason = Reason(TAKEN, f"{taker} took it", fix)
                found.append(NearMiss(name, miss.anchor, reason, miss.location))
        for key, (miss, ops) in self._ahead.items():
            taker = next((self._takers[op] for op in ops if op in self._takers), None)
            if taker is not None:
                self._had.add(key)
                reason = Reason(TAKEN, f"{taker} took it", f"none: {taker} comes first")
                found.append(replace(miss, reason=reason))
        return found


def _flaw(rule: Fusion, op: PdOp) -> Match | None:
    """The pattern that ends at `op` and has one flaw, but the ops that define it."""
    if type(op) not in rule.root.last_types():
        return None
    found = islice(matches(rule.root, op, tolerant=True), _MOST_WAYS)
    flawed = [match for match in found if _is_about(match, rule)]
    return min(flawed, key=_closeness) if flawed else None


# The most flawed matches that are ranked; large patterns have many.
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
    """Rank of a flawed match, 0 is best: an extra op is nearer to the pattern than a wrong op."""
    name = match.missed.name if match.missed is not None else ""
    return _CLOSE.index(name) if name in _CLOSE else len(_CLOSE)


def _is_about(match: Match, rule: Fusion) -> bool:
    """True when the ops that define a pattern are there, if in the wrong region or read wrongly."""
    there = match.missed is not None and match.missed.name in ("other-block", "other-result")
    return there or match.ops.keys() >= set(rule.defining)


def _without_end(rule: Fusion, op: PdOp) -> Match | None:
    """All of a pattern but the last op, ending at `op`, with the reader as its flaw."""
    if rule.root in rule.defining:
        return None
    for node in rule.root.operands:
        found = next(matches(node, op), None) if isinstance(node, Node) else None
        if found is None or not found.ops.keys() >= set(rule.defining):
            continue
        uses = list(op.results[0].uses)
        if any(type(use.operation) in rule.root.types for use in uses):
            return None  # reported at the op that reads it
        assert isinstance(node, Node)
        wanted = f"`{node.name}` should be read by {rule.root.expected}"
        readers = _readers(op.results[0]) if uses else "read by nothing"
        found.missed = Reason(
            "other-reader", f"{wanted}, it is {readers}", "let the expected op read it"
        )
        return found
    return None


def _readers(value: SSAValue) -> str:
    uses = list(value.uses)
    first = how_used(uses[0].operation, uses[0].index).removeprefix("also ")
    return first if len(uses) == 1 else f"{first}, and {len(uses) - 1} more"
