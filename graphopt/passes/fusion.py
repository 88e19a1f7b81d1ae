"""The fusion engine: pictures of ops as data, matched in one reverse sweep.

A `Fusion` draws its picture in the class body (`Value` holes and `Node` ops), says in `check` why
a picture that is there must be left alone, and in `build` what replaces it. The engine itself
declines when a value inside the picture is needed elsewhere: fetched, kept as state,
differentiated, or read by another op. Every decline has a named reason and is kept for `explain`.

The sweep goes from the last op to the first, so a picture takes its ops before another one that
ends inside it. Rules are ranked by their order: a rule leaves an op alone that ends a picture of a
rule before it. So the outcome depends on the table and the program, never on chance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.ir.op import PdOp
from graphopt.ir.regions import ancestor_in
from graphopt.passes import bisect
from graphopt.passes.naming import how_used, joined_location, show_op, source_line
from graphopt.passes.numerics import Numerics


class Value:
    """A hole in a picture: any value that flows into it.

    `usually` tells program generators what belongs there: a "vector" along the last axis, or a
    value of the "full" shape of the op's result. What is required is for `check` to say.
    """

    name = "value"

    def __init__(self, usually: Literal["any", "vector", "full"] = "any") -> None:
        self.usually = usually

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class Node:
    """An op in a picture: its class (or one of several), and what its first operands must be.

    With `commutes` the first two operands may come in either order.
    """

    name = "op"

    def __init__(
        self,
        op: type[PdOp] | tuple[type[PdOp], ...],
        *operands: Value | Node,
        commutes: bool = False,
    ) -> None:
        self.types = op if isinstance(op, tuple) else (op,)
        self.operands = operands
        self.commutes = commutes

    def __set_name__(self, owner: type, name: str) -> None:
        if name != "root":
            self.name = name

    @property
    def expected(self) -> str:
        """The ops that it may be, in words."""
        names = [op.name for op in self.types]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

    def orders(self) -> Iterator[Sequence[Value | Node]]:
        """The operand lists that this node accepts."""
        yield self.operands
        if self.commutes:
            yield (self.operands[1], self.operands[0], *self.operands[2:])


@dataclass(frozen=True)
class Reason:
    """Why a rule declined: a stable name and a sentence about this very case.

    `fix` is the smallest change of the program that would help, where the case has one of its own.
    """

    name: str
    text: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass
class Match:
    """What a picture matched: `match[node]` is an op, `match.value(hole)` an SSA value.

    A `tolerant` match may miss one constraint of the picture, which is then in `missed`; it serves
    `explain` and is never rewritten.
    """

    ops: dict[Node, PdOp] = field(default_factory=dict[Node, PdOp])
    values: dict[Value, SSAValue] = field(default_factory=dict[Value, SSAValue])
    tolerant: bool = False
    missed: Reason | None = None

    def __getitem__(self, node: Node) -> PdOp:
        return self.ops[node]

    def value(self, hole: Value) -> SSAValue:
        """The value that flows into a hole."""
        return self.values[hole]

    def copy(self) -> Match:
        """An independent copy, for trying another operand order."""
        return Match(dict(self.ops), dict(self.values), self.tolerant, self.missed)

    def miss(self, name: str, text: str) -> Match | None:
        """None; but this match with its one flaw when it may have one and has none yet."""
        if not self.tolerant or self.missed is not None:
            return None
        flawed = self.copy()
        flawed.missed = Reason(name, text)
        return flawed


class Fusion(ABC):
    """One rewrite. Subclasses set `root` to the last op of their picture."""

    root: ClassVar[Node]

    def check(self, match: Match) -> Reason | None:
        """A reason to leave this match alone, None to go on."""
        return None

    @abstractmethod
    def build(self, match: Match) -> PdOp:
        """The op that replaces the picture."""

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        """Which results of the matched ops the fused op's results stand for."""
        return dict(zip(match[self.root].results, fused.results, strict=True))


@dataclass(frozen=True)
class Applied:
    """A fusion that happened: the ops that it replaced, as text, and where they came from."""

    rule: str
    anchor: str
    replaced: tuple[str, ...]
    location: str


@dataclass(frozen=True)
class Declined:
    """A picture that was there and was left alone."""

    rule: str
    anchor: str
    reason: Reason
    location: str


Outcome = Applied | Declined


class FusionPass(ModulePass, ABC):
    """A pass made of fusions. `RULES` lists them, largest picture first."""

    RULES: ClassVar[tuple[Fusion, ...]]
    numerics: ClassVar[Numerics] = Numerics.BIT_EXACT
    """Fused ops are computed by the rules of their parts, so most fusions change no bit."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        sweep(op, [(self.name, rule) for rule in self.RULES])


def sweep(
    module: ModuleOp,
    rules: Sequence[tuple[str, Fusion]],
    watch: Callable[[str, Sequence[PdOp]], None] | None = None,
) -> list[Outcome]:
    """Apply (pass name, rule) pairs everywhere, last op first; what happened, in that order.

    `watch` is told the pass and the ops of each fusion before they are replaced.
    """
    ranked = [_Ranked(rank, name, rule) for rank, (name, rule) in enumerate(rules)]
    by_root: dict[type[Operation], list[_Ranked]] = {}
    for entry in ranked:
        for op_class in entry.rule.root.types:
            by_root.setdefault(op_class, []).append(entry)
    outcomes: list[Outcome] = []
    candidates = [op for op in module.walk() if type(op) in by_root]
    for op in reversed(candidates):
        assert isinstance(op, PdOp)
        for entry in by_root[type(op)]:
            if op.parent is None:
                break  # an earlier fusion took it
            outcome = _try(entry, op, by_root, watch)
            if outcome is not None:
                outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True)
class _Ranked:
    """A rule with its pass and its place in the order of the rules."""

    rank: int
    name: str
    rule: Fusion


def _try(
    entry: _Ranked,
    root: PdOp,
    by_root: Mapping[type[Operation], Sequence[_Ranked]],
    watch: Callable[[str, Sequence[PdOp]], None] | None,
) -> Outcome | None:
    match = match_at(entry.rule.root, root, Match())
    if match is None:
        return None
    anchor, location = show_op(root), source_line(root.location)
    reason = _refusal(entry.rule, match) or _left_to_larger(entry, match, by_root)
    if reason is not None:
        return Declined(entry.name, anchor, reason, location)
    if not bisect.take(entry.name, anchor):
        return None
    if watch is not None:
        watch(entry.name, list(match.ops.values()))
    replaced = tuple(show_op(op) for op in match.ops.values())
    _replace(entry.rule, match, root)
    return Applied(entry.name, anchor, replaced, location)


def _refusal(rule: Fusion, match: Match) -> Reason | None:
    return _needed_elsewhere(rule, match) or rule.check(match)


def _left_to_larger(
    entry: _Ranked, match: Match, by_root: Mapping[type[Operation], Sequence[_Ranked]]
) -> Reason | None:
    """A reason when an op inside the match ends a picture of a rule that ranks higher."""
    for node, op in match.ops.items():
        if node is entry.rule.root:
            continue
        for other in by_root.get(type(op), ()):
            if other.rank >= entry.rank:
                break
            larger = match_at(other.rule.root, op, Match())
            if larger is not None and _refusal(other.rule, larger) is None:
                return Reason("left-to-larger", f"`{node.name}` ends a {other.name} pattern")
    return None


def match_at(node: Node, op: PdOp, match: Match) -> Match | None:
    """Bind a node to an op and its operands; None when the picture is not there."""
    if type(op) not in node.types or op in match.ops.values():
        return None
    bound = match.copy()
    bound.ops[node] = op
    return _bind_operands(node, op, bound)


def _bind_operands(node: Node, op: PdOp, match: Match) -> Match | None:
    """Bind what flows into a node, in one of its orders, one without a flaw if there is one."""
    flawed: Match | None = None
    for order in node.orders():
        if any(isinstance(hole, Node) for hole in order[len(op.operands) :]):
            continue
        bound = match.copy()
        for hole, value in zip(order, op.operands, strict=False):
            result = _bind(hole, value, op, bound)
            if result is None:
                break
            bound = result
        else:
            if bound.missed is match.missed:
                return bound
            flawed = min(filter(None, (flawed, bound)), key=_closeness)
    return flawed


def _closeness(match: Match) -> int:
    """How far a flawed match is from the picture: an op too many is closer than another op."""
    name = match.missed.name if match.missed is not None else ""
    return _CLOSE.index(name) if name in _CLOSE else len(_CLOSE)


_CLOSE = ("", "op-between", "other-result", "other-block", "other-op")


def _bind(hole: Value | Node, value: SSAValue, user: PdOp, match: Match) -> Match | None:
    if isinstance(hole, Value):
        first = match.values.setdefault(hole, value)
        if first is not value:
            return match.miss("other-value", f"`{hole.name}` is two values, not one")
        return match
    producer = value.owner
    wanted = f"`{hole.name}` should be {hole.expected}"
    if not isinstance(producer, PdOp):
        name = f" %{value.name_hint}" if value.name_hint else ""
        return match.miss("not-computed", f"{wanted}, found the argument{name}")
    if producer.parent is not user.parent:
        return match.miss("other-block", f"`{hole.name}` is computed outside of this region")
    if value is not producer.results[0]:
        return match.miss("other-result", f"`{hole.name}`: a side result of it is read")
    found = match_at(hole, producer, match)
    if found is None and match.tolerant and match.missed is None:
        return _bind_flawed(hole, producer, user, match)
    return found


def _bind_flawed(hole: Node, producer: PdOp, user: PdOp, match: Match) -> Match | None:
    """A tolerant match of a node with an op that is not its own, or has one before it."""
    if type(producer) in hole.types:
        return None  # the right op, with more than one flaw below it
    if producer.operands and isinstance(producer.operands[0].owner, PdOp):
        text = f"{show_op(producer)} stands between `{hole.name}` and {show_op(user)}"
        flawed = match.miss("op-between", text)
        found = flawed and match_at(hole, producer.operands[0].owner, flawed)
        if found is not None:
            return found
    flawed = match.miss(
        "other-op", f"`{hole.name}` should be {hole.expected}, found {show_op(producer)}"
    )
    if flawed is None or not any(isinstance(operand, Node) for operand in hole.operands):
        return flawed
    return _bind_operands(hole, producer, flawed)


def _needed_elsewhere(rule: Fusion, match: Match) -> Reason | None:
    """A reason when a value that the fusion would remove has another use."""
    root = match[rule.root]
    inside = set(match.ops.values())
    for hole, value in match.values.items():
        if value.owner in inside:
            return Reason("part-of-itself", f"`{hole.name}` is a value inside the pattern")
    for node, op in match.ops.items():
        if op is root:
            continue
        for use in op.results[0].uses:
            if use.operation not in inside:
                return Reason(
                    "used-elsewhere", f"`{node.name}` is {how_used(use.operation, use.index)}"
                )
        for result in op.results[1:]:
            for use in result.uses:
                if _is_before(use.operation, root):
                    return Reason(
                        "used-before",
                        f"another result of `{node.name}` is read by {show_op(use.operation)}, "
                        "which comes before the end of the pattern",
                    )
    return None


def _is_before(op: Operation, other: Operation) -> bool:
    """True when `op`, or the op that it is inside of, comes before `other` in its block."""
    block = other.parent
    assert isinstance(block, Block)
    outer = ancestor_in(block, op)
    for candidate in block.ops:
        if candidate is outer:
            return True
        if candidate is other:
            return False
    return False


def _replace(rule: Fusion, match: Match, root: PdOp) -> None:
    fused = rule.build(match)
    fused.location = joined_location(match.ops.values())
    block = root.parent
    assert block is not None
    block.insert_op_before(fused, root)
    for old, new in rule.results(match, fused).items():
        old.replace_all_uses_with(new)
    # users before producers: the root goes first
    for op in match.ops.values():
        op.detach()
        op.erase()
