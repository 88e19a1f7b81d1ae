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
    """Copy the ops into the block of a region that yields these values; return block and copies."""
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
    """Replace the ops by `made`, which yields these values, unless the log vetoes it.

    It comes after the last of them. A reader goes on reading a value if `stays` is true for the
    value and the reader. Ops that are still read stay, as copied ones may be.
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
    """Replace a group by its ops, unless the log vetoes it; their results are no longer kept."""
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
