"""Several ops of one kind as one, which takes the place of the last of them.

So the others have to wait for the last one: those whose results are read before it stay alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Block, Operation

from graphopt.ir.dialect.regions import ancestor_in
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.rewrite import RewriteLog

Op = TypeVar("Op", bound=Operation)


def movable(ops: Sequence[Op], log: RewriteLog, reason: Callable[[Operation], Reason]) -> list[Op]:
    """The ops of one block, in its order, that can wait for the last of them.

    Of each other one the log gets the reason for the op that reads its result too early.
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
    """Who reads a result of `op` in or in front of position `end` of the block."""
    for result in op.results:
        for use in result.uses:
            reader = ancestor_in(block, use.operation)
            if reader is not None and place[reader] <= end:
                return use.operation
    return None
