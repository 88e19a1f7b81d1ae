"""Ops of a block that become the region of one op, and come out of it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.differentiated import KEPT
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, RegionOp, Yield
from graphopt.passes.engine.naming import joined_location
from graphopt.passes.engine.rewrite import RewriteLog, replace


def copied_body(ops: Sequence[PdOp], yielded: Sequence[SSAValue]) -> tuple[Block, list[PdOp]]:
    """The block of a region that computes these values of the ops, and the copies in it."""
    body = Block()
    made: list[PdOp] = []
    copies: dict[SSAValue, SSAValue] = {}
    for op in ops:
        copy = op.clone(copies)
        body.add_op(copy)
        made.append(copy)
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
    body.add_op(Yield.make([copies[value] for value in yielded]))
    return body, made


def stand_in(
    made: RegionOp,
    ops: Sequence[PdOp],
    yielded: Sequence[SSAValue],
    log: RewriteLog,
    copied: Sequence[PdOp] = (),
    stays: Callable[[SSAValue, Operation], bool] = lambda value, reader: False,
) -> None:
    """Put `made`, which yields these values, in the place of the ops, unless the log vetoes it.

    It comes after the last of them. A reader reads on what `stays` says of a value and of it, and
    ops that are still read, as those that were copied may be, stay.
    """
    block = ops[-1].parent
    assert block is not None
    made.location = joined_location(ops)
    block.insert_op_after(made, ops[-1])
    values: dict[SSAValue, SSAValue] = dict(zip(yielded, made.results, strict=True))
    if log.undo_if_wrong(ops, values):
        return
    replace_uses(values, stays)
    for op in (*reversed(ops), *copied):
        if not any(result.uses for result in op.results):
            op.detach()
            op.erase()
    log.begin(made)


def taken_out(group: FusionGroup, log: RewriteLog) -> None:
    """Put the ops of a group in its place, unless the log vetoes it; nothing of them is kept."""
    block, copies = group.parent, dict[SSAValue, SSAValue]()
    assert block is not None
    for op in group.body.block.ops:
        if not isinstance(op, Yield):
            copy = op.clone(copies)
            copy.attributes.pop(KEPT, None)
            block.insert_op_before(copy, group)
    values: dict[SSAValue, SSAValue] = {}
    for result, yielded in zip(group.results, group.yielded_values(), strict=True):
        values[result] = copies[yielded]
    replace(group, values, log)
