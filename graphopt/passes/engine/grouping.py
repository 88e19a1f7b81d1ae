"""Several ops of one kind as one, at the position of the last of them.

The others must be able to move down to the last one: ops whose results are read before it stay
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from graphopt.ir.dialect.regions import ancestor_in, values_read
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.rewrite import RewriteLog

Op = TypeVar("Op", bound=Operation)


def movable(ops: Sequence[Op], log: RewriteLog, reason: Callable[[Operation], Reason]) -> list[Op]:
    """Select the ops of a block that can move down to the last of them, in order.

    Each other op is logged as declined, with the op that reads its result too early.
    """
    block = ops[-1].parent
    assert block is not None
    place = {op: number for number, op in enumerate(block.ops)}
    found: list[Op] = []
    for op in ops:
        early = _early_reader(op, block, place, place[ops[-1]])
        if early is None:
            found.append(op)
        else:
            log.declined(op, reason(early))
    return found


def _early_reader(
    op: Operation, block: Block, place: Mapping[Operation, int], end: int
) -> Operation | None:
    """Find a reader of a result of `op` at or before position `end` of the block."""
    for result in op.results:
        for use in result.uses:
            reader = ancestor_in(block, use.operation)
            if reader is not None and place[reader] <= end:
                return use.operation
    return None


def waits_for(ops: Sequence[Operation]) -> dict[Operation, set[Operation]]:
    """Map each op of a block to the ops that must come before it.

    These compute the values that it reads; ops that print or check values keep their order.
    """
    found: dict[Operation, set[Operation]] = {}
    effect: Operation | None = None
    for op in ops:
        assert op.parent is not None
        makers = {value.owner for value in values_read(op) if isinstance(value.owner, Operation)}
        around = {ancestor_in(op.parent, maker) for maker in makers}
        found[op] = {maker for maker in around if maker is not None}
        if not is_side_effect_free(op):
            if effect is not None:
                found[op].add(effect)
            effect = op
    return found
