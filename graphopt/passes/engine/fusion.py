"""The fusion engine: patterns of ops as data, matched in one reverse sweep.

A `Fusion` draws its pattern in the class body (`Value` holes and `Node` ops), returns in `check`
the reason to decline a match, and builds the replacement in `build`. The engine itself declines
when a value inside the pattern is needed elsewhere: fetched, kept as state, differentiated, or read
by another op. Every decline has a named reason and is kept for `explain`.

The sweep goes from the last op to the first, so a pattern takes its ops before another one that
ends inside it. Rules are ranked by their order: a rule leaves an op alone that ends a pattern of a
rule before it. So the outcome depends on the table and the program, never on chance.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.errors import PassError
from graphopt.ir.dialect.bulk import open_operands, replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.regions import ancestor_in
from graphopt.passes.engine import bisect, validation
from graphopt.passes.engine.matching import matches
from graphopt.passes.engine.naming import how_used, joined_location, show_op, source_line
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.pattern import Hole as Hole
from graphopt.passes.engine.pattern import Match as Match
from graphopt.passes.engine.pattern import Node as Node
from graphopt.passes.engine.pattern import Reason as Reason
from graphopt.passes.engine.pattern import Value as Value
from graphopt.passes.engine.pattern import wrong_attr as wrong_attr
from graphopt.passes.engine.pattern import wrong_attrs as wrong_attrs


class Fusion(ABC):
    """One rewrite. Subclasses set `root` to the last op of their pattern.

    If a pattern matches in several ways, the first one without a reason to decline is taken.
    """

    root: Node
    defining: tuple[Node, ...] = ()
    """The ops that define the fusion: without all of them, nothing is a near miss."""
    part: Fusion | None = None
    """A smaller pattern in this one; if only it matches, `lacking` names the missing ops."""

    def lacking(self, part: Match) -> Reason | None:
        """Name the ops missing around a match of `part`, as a reason for `explain`.

        Return None if the ops around it compute something else altogether.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has a part but does not say what it lacks"
        )

    def check(self, match: Match) -> Reason | None:
        """Return a reason to decline this match, or None to accept it."""
        return None

    @abstractmethod
    def build(self, match: Match) -> PdOp:
        """Build the op that replaces the pattern."""

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        """Map results of the matched ops to the fused op's results that replace them."""
        return dict(zip(match.root.results, fused.results, strict=False))

    def inner_results(self, match: Match) -> Collection[SSAValue]:
        """List the inner values that the fused op also computes, in `results`, if they are read.

        By default these are, for a rule with its own `results`, all results of each op but the
        first.
        """
        if type(self).results is Fusion.results:
            return ()
        return [result for op in match.ops.values() for result in op.results[1:]]


@dataclass(frozen=True)
class Applied:
    """An applied fusion: the ops that it replaced, as text, and their location.

    `note` is text that the pass adds to the report.
    """

    rule: str
    anchor: str
    replaced: tuple[str, ...]
    location: str
    note: str = ""


@dataclass(frozen=True)
class Declined:
    """A match that was declined."""

    rule: str
    anchor: str
    reason: Reason
    location: str


Outcome = Applied | Declined


class Watcher(Protocol):
    """A listener of a sweep, called while the ops still exist."""

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Note that a pass is about to replace `ops`, the last one first, by `made`."""
        ...

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Note that a pass declined the matches that end with `op`."""
        ...


class FusionPass(ModulePass, ABC):
    """A pass of fusions. `RULES` lists them, largest pattern first."""

    RULES: ClassVar[tuple[Fusion, ...]]
    numerics: ClassVar[Numerics] = Numerics.BIT_EXACT
    """Most fusions change no bit, because fused ops compute by the rules of their parts."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        given: Any = vars(cls).get("RULES", ())
        if isinstance(given, property):  # known only for an instance of the pass
            return
        is_tuple = isinstance(given, tuple)
        rules = cast("tuple[Any, ...]", given if is_tuple else (given,))
        for rule in rules:
            if not is_tuple or not isinstance(rule, Fusion):
                name = getattr(rule, "__name__", type(rule).__name__)
                raise PassError(f"{cls.__name__}.RULES should be a tuple such as ({name}(),)")
            if not hasattr(rule, "root"):
                raise PassError(f"{type(rule).__name__} needs `root`, the Node that is replaced")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rules = [(self.name, rule) for rule in self.RULES]
        sweep(op, rules, numerics={self.name: self.numerics})


def sweep(
    module: ModuleOp,
    rules: Sequence[tuple[str, Fusion]],
    watchers: Sequence[Watcher] = (),
    numerics: Mapping[str, Numerics] | None = None,
    seconds: dict[str, float] | None = None,
) -> list[Outcome]:
    """Apply (pass name, rule) pairs everywhere, last op first; return the outcomes in order.

    Ops that a fusion inserts before its own, such as the sum of two masks, are visited next.
    `numerics` maps passes to their classes; a pass without one claims to be bit-exact. `seconds`
    receives the time spent in the rules of each pass.
    """
    classes = numerics or {}
    ranked = [
        _Ranked(rank, name, rule, classes.get(name)) for rank, (name, rule) in enumerate(rules)
    ]
    by_root: dict[type[Operation], list[_Ranked]] = {}
    for entry in ranked:
        for op_class in entry.rule.root.last_types():
            by_root.setdefault(op_class, []).append(entry)
    outcomes: list[Outcome] = []
    clock = time.perf_counter
    ops = list(module.walk())
    waiting = [op for op in ops if type(op) in by_root]
    with open_operands(ops):
        while waiting:
            op = waiting.pop()
            assert isinstance(op, PdOp)
            for entry in by_root[type(op)]:
                if op.parent is None:
                    break  # an earlier fusion removed it
                added: list[Operation] = []
                start = clock()
                outcome = _try(entry, op, by_root, watchers, added)
                if seconds is not None:
                    seconds[entry.name] = seconds.get(entry.name, 0.0) + clock() - start
                waiting += [each for each in added if type(each) in by_root]
                if outcome is not None:
                    outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True)
class _Ranked:
    """A rule with its pass and its place in the order of the rules."""

    rank: int
    name: str
    rule: Fusion
    numerics: Numerics | None


def _try(
    entry: _Ranked,
    root: PdOp,
    by_root: Mapping[type[Operation], Sequence[_Ranked]],
    watchers: Sequence[Watcher],
    added: list[Operation],
) -> Outcome | None:
    """Try a rule at an op, and return the outcome; None if nothing matches.

    `added` receives the ops that a fusion inserts before the fused op.
    """
    declined: Declined | None = None
    for match in matches(entry.rule.root, root):
        reason = refusal(entry.rule, match) or _left_to_larger(entry, match, by_root)
        if reason is not None:
            # a match that binds one value to two holes is the least informative
            if declined is None or declined.reason.name == "part-of-itself":
                declined = Declined(entry.name, show_op(root), reason, source_line(root.location))
            continue
        anchor, location = show_op(root), source_line(root.location)
        if not bisect.take(entry.name, anchor):
            return None
        validation.begin(root)
        before = root.prev_op
        values = _build(entry.rule, match)
        old, made = tuple(match.ops.values()), _between(before, root)
        complete = _read_alike(old, made)
        vetoed = validation.veto(entry.name, entry.numerics, old, values, complete=complete)
        if vetoed is not None:
            validation.take_back(values)
            declined = Declined(entry.name, anchor, vetoed, location)
            continue
        for watcher in watchers:
            watcher.took(entry.name, list(old), made)
        results = {value.owner for value in values.values()}
        added += [op for op in made if op not in results]
        replaced = tuple(show_op(op) for op in old)
        _replace(match, values)
        return Applied(entry.name, anchor, replaced, location)
    if declined is not None:
        for watcher in watchers:
            watcher.note_refusal(entry.name, root, declined.reason)
    return declined


def refusal(rule: Fusion, match: Match) -> Reason | None:
    """Return the reason to decline a rule at a match, regardless of other rules; else None."""
    return _needed_elsewhere(rule, match) or rule.check(match)


def _left_to_larger(
    entry: _Ranked, match: Match, by_root: Mapping[type[Operation], Sequence[_Ranked]]
) -> Reason | None:
    """Return a reason to decline if an inner op ends a pattern of a higher-ranked rule."""
    for node, op in match.ops.items():
        if op is match.root:
            continue
        for other in by_root.get(type(op), ()):
            if other.rank >= entry.rank:
                break
            if any(refusal(other.rule, m) is None for m in matches(other.rule.root, op)):
                return Reason(
                    "left-to-larger",
                    f"`{node.name}` ends a pattern of {other.name}, which goes first",
                    "none: the larger fusion takes the op",
                )
    return None


def _needed_elsewhere(rule: Fusion, match: Match) -> Reason | None:
    """Return a reason to decline if a value that the fusion would remove has another use."""
    root = match.root
    inside = set(match.ops.values())
    given = set(rule.inner_results(match))
    for hole, value in match.values.items():
        if value.owner in inside:
            text = f"the operand `{hole.name}` is also computed inside the pattern"
            return Reason(
                "part-of-itself", text, "none: no fused op takes one of its own inner values"
            )
    for node, op in match.ops.items():
        for result in op.results[op is root :]:
            others = [use for use in result.uses if use.operation not in inside]
            if not others:
                continue
            if result not in given:
                use, which = others[0], "the" if result is op.results[0] else "another"
                return Reason(
                    "used-elsewhere",
                    f"{which} result of `{node.name}` is {how_used(use.operation, use.index)}",
                    "fetch another value, or give the other reader a copy of the op",
                )
            for use in others:
                if _is_before(use.operation, root):
                    which = "the" if result is op.results[0] else "another"
                    return Reason(
                        "used-before",
                        f"{which} result of `{node.name}` is read by {show_op(use.operation)}, "
                        "which comes before the end of the pattern",
                        "move that reader after the pattern",
                    )
    return None


def _is_before(op: Operation, other: Operation) -> bool:
    """True when `op`, or the op that contains it, comes before `other` in its block."""
    block = other.parent
    assert isinstance(block, Block)
    outer = ancestor_in(block, op)
    if outer is block.last_op:
        return False  # most readers are the return op, far from here
    # the two are near each other in most programs, so search in both directions
    before, after = other.prev_op, other.next_op
    while before is not None and after is not None:
        if before is outer or after is outer:
            return before is outer
        before, after = before.prev_op, after.next_op
    return before is not None


def _between(first: Operation | None, last: Operation) -> list[PdOp]:
    """Collect the ops of a block after `first`, or from its start, and before `last`."""
    found: list[PdOp] = []
    at = last.prev_op
    while at is not first:
        assert isinstance(at, PdOp)
        found.append(at)
        at = at.prev_op
    return found[::-1]


def _read_alike(old: Sequence[PdOp], made: Sequence[PdOp]) -> bool:
    """True when the new ops read operands and results of the old ops, and no earlier values."""
    known = {value for op in old for value in (*op.operands, *op.results)}
    known.update(result for op in made for result in op.results)
    return all(value in known for op in made for value in op.operands)


def _build(rule: Fusion, match: Match) -> Mapping[SSAValue, SSAValue]:
    """Insert the fused op before the root; map old values to the results that replace them."""
    root, fused = match.root, rule.build(match)
    fused.location = joined_location(match.ops.values())
    block = root.parent
    assert block is not None
    block.insert_op_before(fused, root)
    return rule.results(match, fused)


def _replace(match: Match, values: Mapping[SSAValue, SSAValue]) -> None:
    replace_uses(values)
    # no op may read a removed value: replace all uses before erasing
    for op in match.ops.values():
        op.detach()
        op.drop_all_references()
    for op in match.ops.values():
        op.erase()
