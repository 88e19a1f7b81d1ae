"""Several collectives of one kind as one, over one buffer.

Below JOIN_BYTES a collective costs its latency, so one for many values pays; above, copying the
values into the buffer and out again costs more than it saves (benchmarks/bench_data_parallel.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.ir import Operation

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.types import byte_count
from graphopt.passes.engine.fusion import Applied, Reason
from graphopt.passes.engine.grouping import movable
from graphopt.passes.engine.naming import joined_location, show_op, source_line
from graphopt.passes.engine.rewrite import RewriteLog

JOIN_BYTES = 32 * 1024
ALONE = Reason("alone-in-its-group", "the group has no other small value to join with")


def small(ops: Sequence[PdOp], log: RewriteLog) -> list[PdOp]:
    """Select the collectives whose value is small enough to join others."""
    found: list[PdOp] = []
    for op in ops:
        size = byte_count(op.operands[0].type)
        if 0 <= size <= JOIN_BYTES:
            found.append(op)
        else:
            text = (
                f"the value has {size} bytes, more than the {JOIN_BYTES} up to which joining pays"
            )
            log.declined(op, Reason("large", text, "none: joining large values would cost time"))
    return found


def join(
    ops: Sequence[PdOp],
    log: RewriteLog,
    properties: Callable[[Sequence[PdOp]], Mapping[str, Any]] = lambda ops: ops[0].attr_values(),
) -> None:
    """Replace collectives of one operand each by one for all, at the position of the last.

    `properties` builds its properties from the joined ops.
    """
    if len(ops) > 1:
        ops = movable(ops, log, _needed_early)
    if len(ops) < 2:
        for op in ops:
            log.declined(op, ALONE)
        return
    last = ops[-1]
    if not log.allow(last):
        return
    line = source_line(last.location)
    log.outcomes.append(Applied(log.rule, show_op(last), tuple(map(show_op, ops)), line))
    first, *rest = [op.operands[0] for op in ops]
    made = type(last).make(first, rest, location=joined_location(ops), **properties(ops))
    assert last.parent is not None
    last.parent.insert_op_before(made, last)
    for op, new in zip(ops, made.results, strict=True):
        new.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new)
        op.detach()
        op.erase()


def _needed_early(reader: Operation) -> Reason:
    text = f"{show_op(reader)} reads the value before the last value of the group is computed"
    return Reason("needed-early", text)
