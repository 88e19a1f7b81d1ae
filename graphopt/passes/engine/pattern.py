"""Patterns of fusions as data, and the matches of a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.reason import Reason as Reason

# The ops that may define a value of a pattern; None for any value.
Producers = frozenset[type[Operation]] | None


class Value:
    """A hole in a pattern: any value that flows into it.

    `usually` is the value that program generators put there: a "vector" along the last axis, or a
    value of the "full" shape of the op's result. Requirements are left to `check`.
    """

    producers: Producers = None

    def __init__(
        self, usually: Literal["any", "vector", "full"] = "any", *, name: str = "value"
    ) -> None:
        self.usually = usually
        self.name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class Node:
    """An op in a pattern: its class (or one of several), and the patterns of its first operands.

    With `commutes` the first two operands may come in either order. An `optional` op may be
    missing; then `instead`, or else the first of its operands that is a node (or a hole, when none
    is), stands in its place. A node may be in a pattern several times: it is one op.
    `node.result(i)` is a use of another result than the first.
    """

    name = "op"

    def __init__(
        self,
        op: type[PdOp] | tuple[type[PdOp], ...],
        *operands: Hole,
        commutes: bool = False,
        optional: bool = False,
        instead: Hole | None = None,
        name: str = "",
    ) -> None:
        self.types = op if isinstance(op, tuple) else (op,)
        self.operands = operands
        self.commutes = commutes
        self.optional = optional
        self.instead = instead
        if name:
            self.name = name

    def __set_name__(self, owner: type, name: str) -> None:
        if name != "root":
            self.name = name

    @property
    def expected(self) -> str:
        """The ops that match, in words: many of one family by its name, as `an activation`."""
        families = Counter(map(_family, self.types))
        names = list(
            dict.fromkeys(
                family if families[family := _family(op)] > _FEW else op.name for op in self.types
            )
        )
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

    @cached_property
    def orders(self) -> Sequence[Sequence[Hole]]:
        """The operand lists that this node accepts."""
        if not self.commutes:
            return (self.operands,)
        first, second, *rest = self.operands
        return self.operands, (second, first, *rest)

    def stand_in(self) -> Hole:
        """Return the pattern that replaces a missing optional op."""
        if self.instead is not None:
            return self.instead
        return next((o for o in self.operands if not isinstance(o, Value)), self.operands[0])

    def result(self, index: int) -> Result:
        """Refer to result `index` of the op."""
        return Result(self, index)

    @cached_property
    def producers(self) -> Producers:
        """The ops whose result may stand here, to rule most places out."""
        if not self.optional:
            return frozenset(self.types)
        below = self.stand_in().producers
        return None if below is None else below.union(self.types)

    def last_types(self) -> set[type[PdOp]]:
        """Collect the op types that may end the pattern; an optional op may be left out."""
        below = self.stand_in() if self.optional else None
        return {*self.types, *(below.last_types() if isinstance(below, Node) else ())}


# a family with more ops than this is named as a family
_FEW = 3


def _family(op: type[PdOp]) -> str:
    """Return the family of an op, with its article; it is the file that declares the op."""
    name = op.__module__.rpartition(".")[2]
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


@dataclass(frozen=True)
class Result:
    """One result of an op in a pattern, by number."""

    node: Node
    index: int

    @property
    def producers(self) -> Producers:
        """The producers of the node."""
        return self.node.producers


Hole = Value | Node | Result


def wrong_attr(name: str, node: Node, op: PdOp, attr: str, wanted: Any) -> Reason:
    """Build the reason that an op of a pattern has another property than required."""
    return wrong_attrs(name, node, op, {attr: wanted})


def wrong_attrs(name: str, node: Node, op: PdOp, wanted: Mapping[str, Any]) -> Reason:
    """Build the reason that an op of a pattern has other properties than required."""
    found = " and ".join(f"{attr} = {op.attr(attr)}" for attr in wanted)
    values = " and ".join(map(str, wanted.values()))
    return Reason(
        name,
        f"`{node.name}` has {found}, not {values}",
        f"set {' and '.join(wanted)} of `{node.name}` to {values}",
    )


@dataclass
class Match:
    """A match of a pattern: `match[node]` is an op, `match.value(hole)` an SSA value.

    A `tolerant` match may miss one constraint of the pattern, which is then in `missed`; it serves
    `explain` and is never rewritten.
    """

    ops: dict[Node, PdOp] = field(default_factory=dict[Node, PdOp])
    values: dict[Value, SSAValue] = field(default_factory=dict[Value, SSAValue])
    tolerant: bool = False
    missed: Reason | None = None

    @property
    def may_miss(self) -> bool:
        """True for a tolerant match without a flaw as yet."""
        return self.tolerant and self.missed is None

    def __getitem__(self, node: Node) -> PdOp:
        return self.ops[node]

    def get(self, node: Node) -> PdOp | None:
        """Return the op of an optional node; None if it is missing."""
        return self.ops.get(node)

    @property
    def root(self) -> PdOp:
        """The last op of the pattern."""
        return next(iter(self.ops.values()))

    def value(self, hole: Value) -> SSAValue:
        """Return the value bound to a hole."""
        return self.values[hole]

    def copy(self) -> Match:
        """Copy the match, to try another binding."""
        return Match(dict(self.ops), dict(self.values), self.tolerant, self.missed)

    def miss(self, name: str, text: str, fix: str) -> Iterator[Match]:
        """Yield a copy of the match with this flaw, if it may have one and has none yet."""
        if self.may_miss:
            flawed = self.copy()
            flawed.missed = Reason(name, text, fix)
            yield flawed
