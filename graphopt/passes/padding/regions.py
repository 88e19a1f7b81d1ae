"""The ops that padded values reach, in the body of a function and inside loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import If, Scan, While, item_type
from graphopt.ir.dialect.ops.math import Cast, LessThan, Where
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.regions import captured_values
from graphopt.ir.dialect.types import rank_of
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.reason import Reason
from graphopt.passes.padding.dims import Axes, CannotPad, Dim
from graphopt.passes.padding.rules import Carried, Padded, RealRows, carry, fill_of

# by op: the result of its rule for padded values, and the axes of its operands
Found = dict[PdOp, tuple[Carried, tuple[Axes, ...]]]


def carry_block(block: Block, padded: Padded, known: dict[SSAValue, Axes]) -> Found:
    """Apply the rule of each op that padded values reach; inner ops come before the op around them.

    The axes of results are added to `known`, the mapping of `padded`, and pairs of dimensions that
    must have one size to its `equal`. Raise CannotPad, with the op, when an op cannot handle
    padding.
    """
    walk = _Walk(padded, known)
    walk.block(block)
    return walk.found


@dataclass
class _Walk:
    padded: Padded
    known: dict[SSAValue, Axes]
    found: Found = field(default_factory=dict[PdOp, tuple[Carried, tuple[Axes, ...]]])

    def block(self, block: Block) -> None:
        """Apply the rules to all ops of a block but its last."""
        for op in block.ops:
            read = [*op.operands, *captured_values(op)]
            if op is block.last_op or not any(value in self.known for value in read):
                continue
            assert isinstance(op, PdOp)
            try:
                carried = self._region(op) if op.regions else _plain(op, self.padded)
            except CannotPad as error:
                raise _at(op, error) from None
            self.found[op] = carried, tuple(map(self.of, op.operands))
            for value, axes in zip(op.results, carried.results, strict=True):
                self._note(value, axes)

    def of(self, value: SSAValue) -> Axes:
        """Return the axes of a value."""
        return self.padded.of(value)

    def _note(self, value: SSAValue, axes: Axes) -> None:
        if any(axes):
            self.known[value] = axes

    def _region(self, op: PdOp) -> Carried:
        if isinstance(op, Scan):
            return self._scan(op)
        if isinstance(op, If):
            return self._if(op)
        if isinstance(op, While):
            return self._while(op)
        raise CannotPad("in-a-region", "the op has a region and reads a padded value")

    def _if(self, op: If) -> Carried:
        self._check_flag(op.condition)
        for region in op.regions:
            self.block(region.block)
        results = [tuple(map(self.of, op.yielded_values(region))) for region in (0, 1)]
        if results[0] != results[1]:
            raise CannotPad(
                "different-padding", "the branches give values that are padded differently"
            )
        return Carried(results[0])

    def _while(self, op: While) -> Carried:
        self._check_flag(op.condition)
        carried = tuple(map(self.of, op.carried))
        for value, axes in zip(op.body.block.args, carried, strict=True):
            self._note(value, axes)
        self.block(op.body.block)
        flag, *values = op.yielded_values() or (op.condition,)
        self._check_flag(flag)
        self._check_carried(values, carried)
        return Carried(carried)

    def _check_flag(self, flag: SSAValue) -> None:
        if any(self.of(flag)):
            raise CannotPad("padded-condition", "the condition has padded rows")

    def _check_carried(self, values: Sequence[SSAValue], before: Sequence[Axes]) -> None:
        if list(map(self.of, values)) != list(before):
            raise CannotPad("different-padding", "an iteration changes the padding of the values")

    def _scan(self, op: Scan) -> Carried:
        steps = {self.of(value)[0] for value in op.sequences}
        if len(steps) > 1:
            raise CannotPad("different-padding", "the sequences are padded differently")
        (time,) = steps
        memories = [self.of(value) for value in op.memories]
        given = [*memories, *(self.of(value)[1:] for value in op.sequences)]
        for value, axes in zip(op.body.block.args, given, strict=True):
            self._note(value, axes)
        self.block(op.body.block)
        yielded, count = op.yielded_values(), len(memories)
        self._check_carried(yielded[:count], memories)
        items = [self.of(value) for value in yielded[count:]]
        results = tuple((time, *axes) for axes in items)
        if time is None:
            return Carried(results)
        return Carried(results, write=lambda old, real: _hold(old, real, time))


def _plain(op: PdOp, padded: Padded) -> Carried:
    """Apply the rule of one op, and check that its masks can be written."""
    carried = carry(op, padded)
    for mask in carried.masks:
        fill_of(mask.fill, op.operands[mask.operand])
    for value, axes in zip(op.results, carried.results, strict=True):
        if len(axes) != rank_of(value.type):
            raise CannotPad("no-rule", "the results have other ranks than the rule of the op gives")
    return carried


def _at(op: Operation, error: CannotPad) -> CannotPad:
    """Add the op to the error, unless the error names an op inside it."""
    name, text = error.reason.name, error.reason.text
    if not text.startswith("pd."):
        error.reason = Reason(name, f"{show_op(op)}: {text}")
    return error


def _hold(op: Scan, real: RealRows, time: Dim) -> Sequence[SSAValue]:
    """Rebuild the scan so that steps beyond the data leave the memories unchanged.

    Forwards, these steps come last, and each of them must compute the same as the last real step:
    so that step leaves its memories unchanged, too. Backwards they come first, and none of them
    changes the initial memories.
    """
    new, live = Before(op), real.mask(time, 1, 0)
    if not op.attr("reverse"):
        number = new(Cumsum.make(new(Cast.make(live, dtype="int64")), axis=0))
        live = new(LessThan.make(number, real.count(time)))
    block = op.body.detach_block(0)
    count = len(op.memories)
    going = block.insert_arg(item_type(live.type), len(block.args))
    end = block.last_op
    assert isinstance(end, PdOp)
    inner = Before(end)
    for at in range(count):
        end.operands[at] = inner(Where.make(going, end.operands[at], block.args[at]))
    held = Scan.build_with(
        [op.memories, [*op.sequences, live]],
        [result.type for result in op.results],
        [block],
        reverse=op.attr("reverse"),
    )
    held.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(held, op)
    return held.results
