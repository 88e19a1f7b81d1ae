"""Growing groups of ops: from the last op to the first, each op joins groups that read it.

A group is computed as one op, so it must be convex: no path may leave it and come back. The block
is a graph whose nodes are groups and loose ops, and a join that would make a cycle is refused. An
op that several independent groups read merges them into one. A cheap op that only reads arguments
of the program is copied into each of its readers instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.ir import Block, BlockArgument, Operation
from xdsl.traits import is_side_effect_free

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.regions import ancestor_in, values_read
from graphopt.passes.engine.fusion import Reason
from graphopt.passes.target.group_borders import DIFFERENTIATED
from graphopt.passes.target.group_costs import GroupKind

INSIDE = Reason(
    "differentiated-inside",
    "a derivative is taken with respect to a value that would be inside the group",
)


@dataclass(eq=False)
class OpGroup:
    """Ops of one block, in program order."""

    ops: list[PdOp]
    copied: list[PdOp] = field(default_factory=list[PdOp])
    """Ops that are also computed outside of the group."""


class Growth:
    """The groups of one block; `paths` are the derivatives that go through each op.

    `kinds` maps the ops that groups may have to their kinds, `ends` maps ops to the reason why
    their results must leave their group, and `most` is the largest number of ops in a group.
    """

    def __init__(
        self,
        block: Block,
        kinds: Mapping[PdOp, GroupKind],
        paths: Mapping[Operation, frozenset[Operation]],
        ends: Mapping[Operation, Reason],
        most: int,
    ) -> None:
        self.block, self.kinds, self.paths, self.ends = block, kinds, paths, ends
        self.most = most
        self.order = list(block.ops)
        self.place = {op: number for number, op in enumerate(self.order)}
        self.group_of: dict[Operation, OpGroup] = {}
        self.borders: list[tuple[PdOp, Reason]] = []
        """The ops that stay outside of the groups that read them, with the reasons."""
        self._next_effect = dict(effects_in_order(block))
        self._readers: dict[Operation, list[Operation]] = {}
        for op in reversed(self.order):
            if isinstance(op, PdOp) and op in kinds:
                self._place(op)

    def groups(self) -> list[OpGroup]:
        """List the groups; the group that ends last in the program comes first."""
        found = dict.fromkeys(self.group_of.values())
        return sorted(found, key=lambda group: -self.place[group.ops[-1]])

    def _place(self, op: PdOp) -> None:
        """Let an op join the groups that read it, or begin one."""
        candidates = dict.fromkeys(
            group for reader in self.readers(op) if (group := self.group_of.get(reader)) is not None
        )
        joined: list[OpGroup] = []
        for group in sorted(candidates, key=lambda group: self.place[group.ops[0]]):
            reason = self._refusal(op, group, joined)
            if reason is None:
                joined.append(group)
            elif self._may_copy(op):
                group.copied.append(op)
            else:
                self.borders.append((op, reason))
        made = OpGroup([op])
        for group in joined:
            made.ops += group.ops
            made.copied = list(dict.fromkeys([*made.copied, *group.copied]))
        made.ops.sort(key=self.place.__getitem__)
        self.group_of.update(dict.fromkeys(made.ops, made))

    def _may_copy(self, op: PdOp) -> bool:
        """True for a cheap op on arguments of the program, which its readers may each compute."""
        kind = self.kinds[op]
        known = all(isinstance(value, BlockArgument) for value in op.operands)
        return op not in self.ends and known and kind.always and kind.work in (0.0, 1.0)

    def _refusal(self, op: PdOp, group: OpGroup, joined: Sequence[OpGroup]) -> Reason | None:
        """Return the reason why an op stays out of a group, which it would merge with `joined`."""
        if op in self.ends:
            return self.ends[op]
        if self.paths[op] != self.paths[group.ops[0]]:
            return Reason(
                "derivative-begins",
                "a derivative goes through either the op or its reader, not through both",
            )
        members = [op, *group.ops, *(member for other in joined for member in other.ops)]
        if len(members) > self.most:
            return Reason("too-long", f"the number of ops in a group is limited to {self.most}")
        if self._products_follow(members):
            return Reason(
                "second-product",
                "a product in the group would depend on another; no product is computed again",
            )
        if self._passes_target(members):
            return INSIDE
        if self._comes_back(members):
            return Reason(
                "comes-back",
                "an op outside of the group would depend on the group, and the group on that op",
                "none: a group is computed at once, so that no other op can run in between",
            )
        return None

    def _products_follow(self, members: Sequence[PdOp]) -> bool:
        """True when one of these ops that is never repeated depends on another such op."""
        inside = set[Operation](members)
        after: set[Operation] = set()
        for op in sorted(members, key=self.place.__getitem__):
            kept = self.kinds[op].work is None
            if kept and op in after:
                return True
            if kept or op in after:
                after.update(inside.intersection(self.readers(op)))
        return False

    def _passes_target(self, members: Sequence[PdOp]) -> bool:
        """True when one of these ops reads a value that a derivative names."""
        targets = [op for op in members if self.ends.get(op) is DIFFERENTIATED]
        return any(not set(members).isdisjoint(self.readers(op)) for op in targets)

    def _comes_back(self, members: Sequence[PdOp]) -> bool:
        """True when a path from some of these ops leaves them and comes back."""
        inside = set[Operation](members)
        end = self._end_of_paths(members)
        waiting = [r for member in inside for r in self.readers(member) if r not in inside]
        seen: set[Operation] = set()
        while waiting:
            op = waiting.pop()
            if op in inside:
                return True
            if op in seen:
                continue
            group = self.group_of.get(op)
            node = group.ops if group is not None else [op]
            seen.update(node)
            if min(self.place[member] for member in node) < end:
                waiting += [r for member in node for r in self.readers(member)]
        return False

    def _end_of_paths(self, members: Sequence[PdOp]) -> int:
        """Find the position after which no path back to these ops can begin.

        The groups of a path may be out of order, but each begins before the next one ends.
        """
        places = [self.place[member] for member in members]
        place, end = min(places), max(places)
        while place < end:
            group = self.group_of.get(self.order[place])
            if group is not None:
                end = max(end, self.place[group.ops[-1]])
            place += 1
        return end

    def readers(self, op: Operation) -> list[Operation]:
        """List the ops of the block that read a result of `op`, and the next op with an effect."""
        found = self._readers.get(op)
        if found is None:
            found = self._readers[op] = list(dict.fromkeys(self._all_readers(op)))
        return found

    def _all_readers(self, op: Operation) -> Iterator[Operation]:
        for result in op.results:
            for use in result.uses:
                reader = ancestor_in(self.block, use.operation)
                if reader is not None:
                    yield reader
        if op in self._next_effect:
            yield self._next_effect[op]


def effects_in_order(block: Block) -> Iterator[tuple[Operation, Operation]]:
    """Pair each op of a block that prints, checks or calls with the next such op."""
    return pairwise(op for op in block.ops if not is_side_effect_free(op))


def restore_order(block: Block) -> None:
    """Move each op of a block after the producers of its operands, keeping most in place."""
    before = {later: op for op, later in effects_in_order(block)}
    ops = list(block.ops)
    placed: dict[Operation, None] = {}
    for op in ops:
        waiting = [op]
        while waiting:
            read = (
                ancestor_in(block, v.owner)
                for v in values_read(waiting[-1])
                if isinstance(v.owner, Operation)
            )
            needed = [*read, before.get(waiting[-1])]
            missing = [other for other in needed if other is not None and other not in placed]
            waiting += missing
            if not missing:
                placed[waiting.pop()] = None
    if ops != list(placed):
        for op in ops:
            op.detach()
        block.add_ops(placed)
