"""The blocks that control-flow operators run, and the names that they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphopt.errors import ProgramError
from graphopt.ir.program.kinds import EMPTY
from graphopt.ir.program.program import Block, Operator


def sub_block(op: Operator) -> Block:
    """Return the block that a control-flow operator runs."""
    return _find_named(op, op.attrs.get("sub_block"), "sub_block is")


def sub_blocks(op: Operator) -> list[Block]:
    """Return the blocks that an operator runs: none, one, or several in the attribute `blocks`."""
    if "sub_block" in op.attrs:
        return [sub_block(op)]
    return [_find_named(op, value, "blocks has") for value in op.attrs.get("blocks", ())]


def _find_named(op: Operator, value: object, what: str) -> Block:
    index = value.idx if isinstance(value, Block) else value
    if not isinstance(index, int) or not 0 < index < op.block.program.num_blocks:
        raise ProgramError(f"operator {op.type} names no block: {what} {value!r}")
    return op.block.program.block(index)


def upstream(ops: Sequence[Operator], names: Iterable[str]) -> set[str]:
    """Collect the names that values are computed from before the end of `ops`, and their own."""
    found = set(names)
    for op in reversed(ops):
        if not found.isdisjoint(op.output_arg_names):
            found.update(op.input_arg_names)
            for inner in sub_blocks(op):
                found.update(names_in(inner, written=False))
    return found


def names_in(block: Block, *, written: bool) -> list[str]:
    """List the outer names that a block, nested blocks included, writes or else reads."""
    found: dict[str, None] = {}
    for op in block.ops:
        names: Sequence[str] = op.output_arg_names if written else op.input_arg_names
        found.update(dict.fromkeys(names))
        for inner in sub_blocks(op):
            found.update(dict.fromkeys(names_in(inner, written=written)))
    own = {name for name, variable in block.vars.items() if not variable.persistable}
    return [name for name in found if name not in own and name != EMPTY]
