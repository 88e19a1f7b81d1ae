"""Values in parts: rewriting ops so that each replica computes its part of their results.

A value of the program is here `whole` (all replicas have it), in parts (`pd.part` and the like), or
a partial sum (the replicas' values add up to it). Elementwise ops of parts give parts, sums of
parts give partial sums; any other op reads whole values, which are gathered for it.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllGather, AllReduce, Part, WithoutPadding, part_length
from graphopt.ir.dialect.ops.math import Cast, LogicalNot
from graphopt.ir.dialect.ops.reduce import All, SquaredL2Norm, Sum
from graphopt.ir.dialect.traits import Linear, takes_any_order
from graphopt.ir.dialect.types import Shape, element_count, rank_of, shape_of
from graphopt.passes.engine.rewrite import insert


class Shards:
    """The values of one block that are in parts, or partial sums, so far.

    Only `uniform` values, which are equal on all replicas, may be sharded.
    """

    def __init__(self, count: int, uniform: set[SSAValue]) -> None:
        self.count = count
        self.uniform = uniform
        self.parts: dict[SSAValue, SSAValue] = {}
        self.partial: dict[SSAValue, SSAValue] = {}
        self._wholes: dict[SSAValue, SSAValue] = {}

    def part(self, value: SSAValue, before: Operation) -> SSAValue:
        """Return this replica's part of a value, inserted before `before` if it is missing."""
        found = self.parts.get(value)
        if found is None:
            made = Part.make(self.whole(value, before), parts=self.count)
            found = self.parts[value] = insert(made, before, value)
        return found

    def whole(self, value: SSAValue, before: Operation) -> SSAValue:
        """Return the whole value, gathered or summed before `before` if no replica has it."""
        if value not in self.partial and not self.is_in_parts(value):
            return value
        found = self._wholes.get(value)
        if found is None:
            if value in self.partial:
                made: PdOp = AllReduce.make(self.partial[value], of_parts=True)
            else:
                made = gather(self.parts[value], shape_of(value.type), self.count)
            found = self._wholes[value] = insert(made, before, value)
        return found

    def is_in_parts(self, value: SSAValue) -> bool:
        """True when no replica has the whole value (unlike one that `pd.part` was taken from)."""
        part = self.parts.get(value)
        if part is None:
            return False
        owner = part.owner
        return not (isinstance(owner, Part) and owner.operands[0] is value)

    def take(self, op: Operation) -> bool:
        """Compute a part of the results of `op`; False when it needs whole values."""
        if not isinstance(op, PdOp) or not any(
            value in self.partial or self.is_in_parts(value) for value in op.operands
        ):
            return False
        return self._elementwise(op) or self._sum(op) or self._add_up(op) or self._all(op)

    def feed_whole(self, op: Operation) -> list[SSAValue]:
        """Let `op` and its regions read whole values; return the values that were in parts."""
        found: list[SSAValue] = []
        for inner in op.walk():
            for index, value in enumerate(inner.operands):
                whole = self.whole(value, op)
                if whole is not value:
                    inner.operands[index] = whole
                    found += [value] if value in self.parts else []
        return found

    def _elementwise(self, op: PdOp) -> bool:
        if not takes_any_order(op) or len(op.results) != 1:
            return False
        shape = shape_of(op.results[0].type)
        if not any(v in self.parts and shape_of(v.type) == shape for v in op.operands):
            return False
        if not all(shape_of(v.type) == shape or is_number(v) for v in op.operands):
            return False
        if not all(value in self.uniform for value in op.operands):
            return False

        def operand(value: SSAValue) -> SSAValue:
            same = shape_of(value.type) == shape and (value in self.parts or not is_number(value))
            return self.part(value, op) if same else self.whole(value, op)

        self.parts[op.results[0]] = insert(remade(op, operand), op, op.results[0])
        return True

    def _sum(self, op: PdOp) -> bool:
        """Rewrite a sum over all elements as a partial sum over this replica's elements."""
        if isinstance(op, Sum):
            axes = op.attr("axis")
            if op.attr("keepdim") or (axes and len(set(axes)) < rank_of(op.operands[0].type)):
                return False
        elif not isinstance(op, SquaredL2Norm):
            return False
        if op.operands[0] not in self.parts:
            return False
        value = self.without_padding(op.operands[0], op)
        attrs = {**op.attr_values(), "axis": ()} if isinstance(op, Sum) else {}
        made = type(op).make(value, location=op.location, **attrs)
        self.partial[op.results[0]] = insert(made, op, op.results[0])
        return True

    def _add_up(self, op: PdOp) -> bool:
        """Rewrite sums of partial sums as partial sums, to send one number for all of them."""
        if not op.has_trait(Linear) or not all(value in self.partial for value in op.operands):
            return False
        made = remade(op, self.partial.__getitem__)
        self.partial[op.results[0]] = insert(made, op, op.results[0])
        return True

    def _all(self, op: PdOp) -> bool:
        """Rewrite an `all` of parts: true if all elements are true on every replica."""
        if not isinstance(op, All) or op.attr("keepdim") or rank_of(op.results[0].type):
            return False
        if op.operands[0] not in self.parts:
            return False
        wrong = insert(LogicalNot.make(self.parts[op.operands[0]]), op, op.results[0])
        count = element_count(shape_of(op.operands[0].type))
        own = insert(WithoutPadding.make(wrong, count=count), op, op.results[0])
        number = insert(Sum.make(insert(Cast.make(own, dtype="int32"), op)), op)
        total = insert(AllReduce.make(number, of_parts=True), op)
        none = insert(Cast.make(total, dtype="bool"), op)
        found = insert(LogicalNot.make(none), op, op.results[0])
        self.replace(op.results[0], found)
        return True

    def replace(self, old: SSAValue, new: SSAValue) -> None:
        """Let all readers read `new`, which is also equal on all replicas."""
        old.replace_all_uses_with(new)
        self.uniform.add(new)

    def without_padding(self, value: SSAValue, before: Operation) -> SSAValue:
        """Return this replica's part of a value, with zeros in its padding."""
        part, count = self.part(value, before), element_count(shape_of(value.type))
        if count == part_length(shape_of(value.type), self.count) * self.count:
            return part
        return insert(WithoutPadding.make(part, count=count), before, value)


def is_number(value: SSAValue) -> bool:
    """True for one element that any flat value can be combined with."""
    return shape_of(value.type) in ((), (1,))


def gather(part: SSAValue, shape: Shape, count: int) -> AllGather:
    """Build the op that gathers a whole value from its parts."""
    return AllGather.make(part, parts=count, sizes=shape, ranks=[len(shape)])


def remade(op: PdOp, operand: Callable[[SSAValue], SSAValue]) -> PdOp:
    """Rebuild an op with other operands."""
    groups = [[operand(value) for value in group] for group in op.operand_groups()]
    return type(op).make(*groups, location=op.location, **op.attr_values())
