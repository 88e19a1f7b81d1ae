"""The values that ops with regions read, and the ops inside them."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue


def captured_values(op: Operation) -> list[SSAValue]:
    """List the outer values that the regions of `op` use, once each, in order of first use."""
    if not op.regions:
        return []
    inside: set[SSAValue] = set()
    found: dict[SSAValue, None] = {}
    for inner in inner_ops(op):
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.args)
        inside.update(inner.results)
    for region in op.regions:
        for block in region.blocks:
            inside.update(block.args)
    for inner in inner_ops(op):
        found.update(dict.fromkeys(v for v in inner.operands if v not in inside))
    return list(found)


def values_read(op: Operation) -> list[SSAValue]:
    """List the operands of `op`, then the values that its regions capture."""
    return [*op.operands, *captured_values(op)]


def inner_ops(op: Operation) -> Iterator[Operation]:
    """Iterate over every op inside the regions of `op`, at any depth."""
    for region in op.regions:
        yield from region.walk()


def ancestor_in(block: Block, op: Operation) -> Operation | None:
    """Find the op of `block` that is `op` or contains it; None when there is none."""
    at: Operation | None = op
    while at is not None and at.parent is not block:
        at = at.parent_op()
    return at
