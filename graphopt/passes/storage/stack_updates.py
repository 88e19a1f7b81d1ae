"""Small parameters of one shape are scaled, clipped and updated as stacks.

A loss scale, a clipped norm and an update are a dozen ops for each parameter, and XLA compiles a
kernel for most of them. So the updates of parameters of one shape become one update on stacks, and
like ops before and after them become one op too, as a compiler packs statements to vectorize
straight-line code. The copies cost little, as the parameters are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.differentiated import differentiated_ops
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import Fence
from graphopt.ir.dialect.ops.rearrange import Unbind
from graphopt.ir.dialect.ops.reduce import SquaredL2Norm, Sum
from graphopt.ir.dialect.ops.shape import Reshape, Stack
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.traits import takes_any_order
from graphopt.ir.dialect.types import UNKNOWN, byte_count, dtype_of, rank_of, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.grouping import waits_for
from graphopt.passes.engine.naming import joined_location
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values
from graphopt.passes.storage.batch_stacked_ops import norms_of_items
from graphopt.passes.storage.stack_state import LARGEST, OneUpdate, made_of, ones_of

Column = tuple[SSAValue, ...]
"""The values at one position of like ops, each for another parameter."""


@dataclass(frozen=True)
class StackUpdates(RewritePass):
    """Stack `fewest` or more small parameters of one shape, where gradients are scaled or clipped.

    For fewer parameters, compiling the stacks takes as long as they save. Only norms may round
    differently: a row of a stack may be summed in another order than a tensor of its own.
    """

    name = "stack-updates"
    numerics = Numerics.REASSOCIATING
    fewest: int = 4

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        blocks = dict.fromkeys(op.parent for op in module.walk() if isinstance(op, Update))
        if blocks:
            kept = differentiated_ops(module) | {v.owner for v in differentiated_values(module)}
            for block in blocks:
                assert block is not None
                _Packing(block, kept, log, self.fewest).run()
        return log.outcomes


class _Packing:
    """The packs of one block."""

    def __init__(self, block: Block, kept: set[Any], log: RewriteLog, fewest: int) -> None:
        self.block = block
        self.log = log
        self.kept = kept
        self.fewest = fewest
        self.level = _levels(block)
        self.stacks: dict[Column, SSAValue] = {}
        self.packed: dict[Operation, None] = {}

    def run(self) -> None:
        """Pack all groups that pay."""
        for group in self._groups():
            if self.log.allow(group[-1].op):
                self.log.applied(group[-1].op, *(one.op for one in group[:-1]))
                self._update(group)
        if self.packed:
            while self._down():
                pass
            self._replace()
            _order(self.block)

    def _groups(self) -> list[list[OneUpdate]]:
        """Group the updates that become one."""
        alike: dict[Any, list[OneUpdate]] = {}
        for op in self.block.ops:
            ones = ones_of(op) if isinstance(op, Update) else []
            if len(ones) == 1:
                alike.setdefault((self.level[op], ones[0].key()), []).append(ones[0])
        return [ones for ones in alike.values() if len(ones) >= self.fewest and self._pays(ones)]

    def _pays(self, ones: Sequence[OneUpdate]) -> bool:
        last, size = ones[-1], byte_count(ones[0].param.type)
        if UNKNOWN in shape_of(last.param.type):
            return False
        if size > LARGEST:
            text = (
                f"each parameter has {size} bytes, more than the {LARGEST} up to which copying pays"
            )
            self.log.declined(last.op, Reason("large", text, "none: copying would cost time"))
            return False
        gradients = [cast(Operation, one.operands["grad"].owner) for one in ones]
        if not self._are_alike(gradients):
            text = "the gradients are neither scaled nor clipped, and a single update is quick"
            self.log.declined(
                last.op, Reason("only-updates", text, "none: copying would cost time")
            )
            return False
        return True

    def _update(self, group: Sequence[OneUpdate]) -> None:
        """Insert one update of stacks for a group."""
        fused = made_of(group, lambda role: [self._stack(tuple(o.operands[role] for o in group))])
        self._insert(fused, [one.op for one in group])
        for role, result in zip(group[0].results, fused.results, strict=True):
            self.stacks[tuple(one.results[role] for one in group)] = result
        self.packed |= dict.fromkeys(one.op for one in group)

    # -- packs -------------------------------------------------------------------------------------

    def _stack(self, column: Column) -> SSAValue:
        """Return the stack of a column; where like ops compute the values, one op computes it."""
        if column not in self.stacks:
            ops = [value.owner for value in column]
            if self._are_alike(ops):
                self._pack(cast("list[PdOp]", ops))
            else:
                made = Stack.make(list(column))
                makers = [op for op in ops if isinstance(op, Operation)]
                self._insert(made, makers)
                self.stacks[column] = made.results[0]
        return self.stacks[column]

    def _are_alike(self, ops: Sequence[Any]) -> bool:
        """True for ops that one op on stacks can replace."""
        first = ops[0]
        if not isinstance(first, PdOp) or first.parent is not self.block or first in self.kept:
            return False
        if len(first.results) != 1 or not _can_pack(first) or len(set(ops)) < len(ops):
            return False
        key = self._key(first)
        alike = all(self._key(op) == key and op not in self.kept for op in ops[1:])
        return key is not None and alike and _fit(ops)

    def _key(self, op: Any) -> Any:
        """Return the key of like ops, with their level: ops of one level are independent."""
        if not isinstance(op, Operation) or op in self.packed:
            return None
        types = (*op.operand_types, *op.result_types)
        return type(op), self.level.get(op), types, frozenset(op.properties.items())

    def _pack(self, ops: Sequence[PdOp]) -> None:
        """Insert one op on stacks for several like ops."""
        first = ops[0]
        if isinstance(first, SquaredL2Norm):
            *earlier, made = norms_of_items(self._stack(tuple(op.operands[0] for op in ops)))
            for each in earlier:
                self._insert(each, ops)
        elif isinstance(first, Sum):
            stack = self._stack(tuple(op.operands[0] for op in ops))
            axes = tuple(range(1, rank_of(stack.type)))
            made = Sum.make(stack, **{**first.attr_values(), "axis": axes})
        else:
            rank = rank_of(first.results[0].type)
            groups: list[list[SSAValue]] = []
            at = 0
            for group in first.operand_groups():
                places = range(at, at + len(group))
                groups.append([self._operand(ops, place, rank) for place in places])
                at += len(group)
            made = type(first).make(*groups, **first.attr_values())
        self._insert(made, ops)
        self.stacks[tuple(op.results[0] for op in ops)] = made.results[0]
        self.packed |= dict.fromkeys(ops)

    def _operand(self, ops: Sequence[PdOp], place: int, rank: int) -> SSAValue:
        """Return the value all ops read at `place`, else a stack, for results of this rank."""
        column = tuple(op.operands[place] for op in ops)
        if len(set(column)) == 1:
            return column[0]
        stack = self._stack(column)
        shape = shape_of(column[0].type)
        if len(shape) == rank:
            return stack
        wide = (len(ops), *(1,) * (rank - len(shape)), *shape)
        return self._insert_value(Reshape.make(stack, shape=wide), ops)

    def _insert_value(self, op: PdOp, instead: Sequence[Operation]) -> SSAValue:
        self._insert(op, instead)
        return op.results[0]

    def _insert(self, op: PdOp, instead: Sequence[Operation]) -> None:
        """Insert an op before the first op it replaces; `_order` moves it to a valid place."""
        op.location = joined_location(instead)
        inside = [each for each in instead if each.parent is self.block]
        before = inside[0] if inside else self.block.first_op
        assert before is not None
        self.block.insert_op_before(op, before)

    # -- readers of stacks -------------------------------------------------------------------------

    def _down(self) -> bool:
        """Pack ops that are alike and read stacks; False if there are none."""
        found = False
        for column in list(self.stacks):
            for ops in self._readers(column):
                if self._are_alike(ops):
                    self._pack(ops)
                    found = True
        return found

    def _readers(self, column: Column) -> Iterator[list[PdOp]]:
        """Yield the ops that read the values of a column, each at the same operand position."""
        for use in list(column[0].uses):
            first, key = use.operation, self._key(use.operation)
            if first.parent is not self.block or key is None or key[1] is None:
                continue
            ops = [first]
            for value in column[1:]:
                alike = (u.operation for u in value.uses if u.index == use.index)
                other = next((op for op in alike if self._key(op) == key), None)
                if other is None:
                    break
                ops.append(other)
            if len(ops) == len(column):
                yield cast("list[PdOp]", ops)

    # -- the rest of the block ---------------------------------------------------------------------

    def _replace(self) -> None:
        """Let all other ops read items of the stacks, and remove the packed ops."""
        values: dict[SSAValue, SSAValue] = {}
        for column, stack in self.stacks.items():
            if isinstance(stack.owner, Stack):
                continue  # it reads the values, and each has its own producer
            if all(use.operation in self.packed for value in column for use in value.uses):
                continue
            owner = cast(PdOp, stack.owner)
            # without a fence, XLA would compute the stack again in the kernel of each item
            fence = Fence.make([stack], [], location=owner.location)
            apart = Unbind.make(fence.results[0], location=owner.location)
            self.block.insert_ops_after([fence, apart], owner)
            values |= zip(column, apart.results, strict=True)
        replace_uses(values)
        for op in reversed(self.packed):
            op.detach()
        for op in self.packed:
            op.erase(safe_erase=False)


def _can_pack(op: PdOp) -> bool:
    """True for an op that can be computed on all items of a stack at once."""
    if isinstance(op, SquaredL2Norm):
        return dtype_of(op.operands[0].type) in ("float32", "float64")
    if isinstance(op, Sum):
        return not op.attr("axis") and not op.attr("keepdim") and rank_of(op.operands[0].type) > 0
    return takes_any_order(op) and UNKNOWN not in shape_of(op.results[0].type)


def _fit(ops: Sequence[Operation]) -> bool:
    """True when shared operands, and operands that differ, broadcast on stacks as before.

    Ops that share all operands compute one value, which is no stack.
    """
    if not takes_any_order(ops[0]):
        return len({op.operands[0] for op in ops}) == len(ops)
    if len({tuple(op.operands) for op in ops}) == 1:
        return False
    rank = rank_of(ops[0].results[0].type)
    return all(rank_of(operand.type) <= rank for operand in ops[0].operands)


def _levels(block: Block) -> dict[Operation, int]:
    """Map each op of a block to the length of the longest path to it."""
    found: dict[Operation, int] = {}
    for op, makers in waits_for(list(block.ops)).items():
        found[op] = 1 + max((found[maker] for maker in makers), default=-1)
    return found


def _order(block: Block) -> None:
    """Move each op after the ops that it waits for; other ops keep their order."""
    ops = list(block.ops)
    place = {op: at for at, op in enumerate(ops)}
    waits = {op: sorted(makers, key=place.__getitem__) for op, makers in waits_for(ops).items()}
    placed: dict[Operation, None] = {}
    for op in ops:
        path = [op]
        while path:
            missing = next((each for each in waits[path[-1]] if each not in placed), None)
            if missing is not None:
                path.append(missing)
            else:
                placed[path.pop()] = None
    for op in ops:
        op.detach()
    block.add_ops(placed)
