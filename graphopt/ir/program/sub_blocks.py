"""The blocks that control-flow operators run, and the names that they read and write."""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.errors import ProgramError
from graphopt.ir.program.kinds import EMPTY
from graphopt.ir.program.program import Block, Operator


def sub_block(op: Operator) -> Block:
    """The block that a control-flow operator runs."""
    value = op.attrs.get("sub_block")
    index = value.idx if isinstance(value, Block) else value
    if not isinstance(index, int) or not 0 < index < op.block.program.num_blocks:
        raise ProgramError(f"operator {op.type} names no block: sub_block is {value!r}")
    return op.block.program.block(index)


def names_in(block: Block, *, written: bool) -> list[str]:
    """The names from around a block that it, or a block that it runs, writes (or else reads)."""
    found: dict[str, None] = {}
    for op in block.ops:
        names: Sequence[str] = op.output_arg_names if written else op.input_arg_names
        found.update(dict.fromkeys(names))
        if "sub_block" in op.attrs:
            found.update(dict.fromkeys(names_in(sub_block(op), written=written)))
    own = {name for name, variable in block.vars.items() if not variable.persistable}
    return [name for name in found if name not in own and name != EMPTY]
