"""Batch identical ops on all items of a stack into one op (gradient clipping and decay).

The op takes the place of the first of them, which reads the same operands, and its result is
unbound for the readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import Block, Operation, OpResult, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import AddN, Square
from graphopt.ir.dialect.ops.rearrange import Unbind
from graphopt.ir.dialect.ops.reduce import SquaredL2Norm, Sum
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.traits import takes_any_order
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.passes.engine.rewrite import insert
from graphopt.passes.parallel.shards import is_number

# the key shared by ops on items of the same stacks
Key = tuple[Any, ...]


def lift(block: Block, kept: set[SSAValue]) -> None:
    """Batch ops on all items of a stack into ops on the stack, until nothing changes.

    Ops on the values in `kept` are not changed: derivatives name them.
    """
    while _once(block, kept):
        pass


def _once(block: Block, kept: set[SSAValue]) -> bool:
    place = {op: at for at, op in enumerate(block.ops)}
    groups: dict[Key, dict[int, PdOp]] = {}
    for op in block.ops:
        found = _key(op)
        if found is not None and kept.isdisjoint((*op.operands, *op.results)):
            key, index = found
            groups.setdefault(key, {}).setdefault(index, op)  # pyright: ignore
    lifted = False
    for members in groups.values():
        ops = [members[index] for index in sorted(members)]
        item = next(v for v in ops[0].operands if _item(v) is not None)
        source = cast(Operation, item.owner)
        if len(ops) == len(source.results):
            _replace(ops, min(ops, key=place.__getitem__))
            lifted = True
    return lifted


def _item(value: SSAValue) -> int | None:
    """Return the index of a value in the stack that it is an item of; None for any other value."""
    owner = value.owner
    is_item = isinstance(owner, Unbind) and not owner.attr("axis") and len(owner.results) > 1
    return cast(OpResult, value).index if is_item else None


def _key(op: Operation) -> tuple[Key, int] | None:
    """Return the key that an op shares with ops on other items, and the index of its item.

    Return None for an op that cannot be computed on stacks.
    """
    is_lifted = takes_any_order(op) or isinstance(op, SquaredL2Norm)
    if not is_lifted or len(op.results) != 1:
        return None
    indices = {index for value in op.operands if (index := _item(value)) is not None}
    if len(indices) != 1 or not _fits(op):
        return None
    reads = [value.owner if _item(value) is not None else value for value in op.operands]
    return (type(op), frozenset(op.properties.items()), *reads), indices.pop()


def _fits(op: Operation) -> bool:
    """True when the items have the shape of the result, and no other operand is larger."""
    items = [value for value in op.operands if _item(value) is not None]
    if isinstance(op, SquaredL2Norm):
        return dtype_of(op.operands[0].type) in ("float32", "float64")
    shape = shape_of(op.results[0].type)
    others = [value for value in op.operands if _item(value) is None]
    if isinstance(op, AddN) and others:
        return False
    return all(shape_of(value.type) == shape for value in items) and all(
        is_number(value) and rank_of(value.type) <= len(shape) for value in others
    )


def _replace(ops: Sequence[PdOp], first: PdOp) -> None:
    """Replace the ops by one op on the stack, inserted before `first`."""

    def whole(value: SSAValue) -> SSAValue:
        return cast(Operation, value.owner).operands[0] if _item(value) is not None else value

    if isinstance(first, SquaredL2Norm):
        norms = norms_of_items(whole(first.operands[0]))
        made = [insert(op, first) for op in norms][-1]
    else:
        groups = [[whole(value) for value in group] for group in first.operand_groups()]
        made = insert(type(first).make(*groups, **first.attr_values()), first, first.results[0])
    apart = Unbind.make(made, location=first.location)
    assert first.parent is not None
    first.parent.insert_op_before(apart, first)
    replace_uses({op.results[0]: new for op, new in zip(ops, apart.results, strict=True)})
    for op in ops:
        op.detach()
        op.erase()


def norms_of_items(stack: SSAValue) -> list[PdOp]:
    """Build the ops for each item's sum of squares, of shape [1]; the last has the result."""
    made: list[PdOp] = [Square.make(stack)]
    axes = tuple(range(1, rank_of(stack.type)))
    if axes:
        made.append(Sum.make(made[-1].results[0], axis=axes))
    made.append(Reshape.make(made[-1].results[0], shape=(shape_of(stack.type)[0], 1)))
    return made
