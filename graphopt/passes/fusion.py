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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    UnknownLoc,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.ir.op import PdOp
from graphopt.ir.ops.control import Yield
from graphopt.ir.ops.grad import Grad
from graphopt.ir.regions import ancestor_in
from graphopt.ir.signature import signature_of


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

    def orders(self) -> Iterator[Sequence[Value | Node]]:
        """The operand lists that this node accepts."""
        yield self.operands
        if self.commutes:
            yield (self.operands[1], self.operands[0], *self.operands[2:])


@dataclass(frozen=True)
class Reason:
    """Why a rule declined: a stable name and a sentence about this very case."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass
class Match:
    """What a picture matched: `match[node]` is an op, `match.value(hole)` an SSA value."""

    ops: dict[Node, PdOp] = field(default_factory=dict[Node, PdOp])
    values: dict[Value, SSAValue] = field(default_factory=dict[Value, SSAValue])

    def __getitem__(self, node: Node) -> PdOp:
        return self.ops[node]

    def value(self, hole: Value) -> SSAValue:
        """The value that flows into a hole."""
        return self.values[hole]

    def copy(self) -> Match:
        """An independent copy, for trying another operand order."""
        return Match(dict(self.ops), dict(self.values))


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

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        sweep(op, [(self.name, rule) for rule in self.RULES])


def sweep(module: ModuleOp, rules: Sequence[tuple[str, Fusion]]) -> list[Outcome]:
    """Apply (pass name, rule) pairs everywhere, last op first; what happened, in that order."""
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
            outcome = _try(entry, op, by_root)
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
    entry: _Ranked, root: PdOp, by_root: Mapping[type[Operation], Sequence[_Ranked]]
) -> Outcome | None:
    match = _match(entry.rule.root, root, Match())
    if match is None:
        return None
    anchor, location = _show(root), source_line(root.location)
    reason = _refusal(entry.rule, match) or _left_to_larger(entry, match, by_root)
    if reason is not None:
        return Declined(entry.name, anchor, reason, location)
    replaced = tuple(_show(op) for op in match.ops.values())
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
            larger = _match(other.rule.root, op, Match())
            if larger is not None and _refusal(other.rule, larger) is None:
                return Reason("left-to-larger", f"`{node.name}` ends a {other.name} pattern")
    return None


def _match(node: Node, op: PdOp, match: Match) -> Match | None:
    """Bind a node to an op and its operands; None when the picture is not there."""
    if type(op) not in node.types or op in match.ops.values():
        return None
    for order in node.orders():
        bound = match.copy()
        bound.ops[node] = op
        for hole, value in zip(order, op.operands, strict=False):
            result = _bind(hole, value, op, bound)
            if result is None:
                break
            bound = result
        else:
            return bound
    return None


def _bind(hole: Value | Node, value: SSAValue, user: PdOp, match: Match) -> Match | None:
    if isinstance(hole, Value):
        if match.values.setdefault(hole, value) is not value:
            return None
        return match
    producer = value.owner
    if not isinstance(producer, PdOp) or producer.parent is not user.parent:
        return None
    if value is not producer.results[0]:
        return None
    return _match(hole, producer, match)


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
                    "used-elsewhere", f"`{node.name}` is {_how_used(use.operation, use.index)}"
                )
        for result in op.results[1:]:
            for use in result.uses:
                if _is_before(use.operation, root):
                    return Reason(
                        "used-before",
                        f"another result of `{node.name}` is read by {_show(use.operation)}, "
                        "which comes before the end of the pattern",
                    )
    return None


def _how_used(user: Operation, index: int) -> str:
    if isinstance(user, Yield):
        around = user.parent_op()
        return f"yielded from {around.name if around else 'a region'}"
    if isinstance(user, Grad):
        return "differentiated (a gradient with respect to it is asked for)"
    if isinstance(user, ReturnOp):
        module = user.parent_op()
        while module is not None and not isinstance(module, ModuleOp):
            module = module.parent_op()
        if isinstance(module, ModuleOp):
            port = signature_of(module).results[index]
            kind = "fetched" if port.kind == "pd.fetch" else "kept as state"
            return f"{kind} ('{port.name}')"
    return f"also read by {_show(user)}"


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
    fused.location = _joined_location(match.ops.values())
    block = root.parent
    assert block is not None
    block.insert_op_before(fused, root)
    for old, new in rule.results(match, fused).items():
        old.replace_all_uses_with(new)
    # users before producers: the root goes first
    for op in match.ops.values():
        op.detach()
        op.erase()


def _joined_location(ops: Iterable[Operation]) -> LocationAttr:
    found = list(dict.fromkeys(op.location for op in ops if op.location != UnknownLoc()))
    if len(found) < 2:
        return found[0] if found else UnknownLoc()
    return FusedLoc(ArrayAttr[Attribute](found), NoneAttr())


def source_line(location: Attribute) -> str:
    """A location as `file:line`, the first one of several; empty when it is not known."""
    if isinstance(location, FusedLoc):
        several = cast(ArrayAttr[Attribute], location.locations)
        return next((line for line in map(source_line, several) if line), "")
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}"
    return ""


def _show(op: Operation) -> str:
    """An op in few words: its name and the name of its first result."""
    if not op.results:
        return op.name
    hint = op.results[0].name_hint
    return f"{op.name} %{hint}" if hint else op.name
