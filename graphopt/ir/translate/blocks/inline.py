"""Blocks that are inlined while parsing, such as loops over tensor arrays and branches for rows."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.program import Block, Operator
from graphopt.ir.program.sub_blocks import names_in, sub_block
from graphopt.ir.translate.blocks.block import BlockParser

# The most operators that the loops of one program may unroll into.
_MOST_UNROLLED = 20_000


def arrays_written(parser: BlockParser, op: Operator) -> list[str]:
    """List the outer tensor arrays that the operators inside `op` write."""
    return [name for name in names_in(sub_block(op), written=True) if parser.is_array(name)]


def arrays_read(parser: BlockParser, op: Operator) -> list[str]:
    """List the outer tensor arrays that the operators inside `op` read."""
    return [name for name in names_in(sub_block(op), written=False) if parser.is_array(name)]


def inline_block(parser: BlockParser, block: Block, what: str) -> dict[str, SSAValue]:
    """Inline a block here, once; return the values of the outer names that it writes.

    `what` names the construct in errors.
    """
    frame = parser.enter(block)
    parser.run(block.ops)
    parser.leave()
    count_unfolded(parser, len(block.ops), what)
    for name, elements in frame.arrays.items():
        if not frame.owns(name):
            parser.frame.arrays[name] = elements
    return {name: frame.values[name] for name in frame.outer_names()}


def count_unfolded(parser: BlockParser, count: int, what: str) -> None:
    """Count operators that a program unfolds into; UnsupportedError if there are too many.

    `what` names the unfolded construct in the message.
    """
    parser.unrolled += count
    if parser.unrolled > _MOST_UNROLLED:
        raise UnsupportedError(
            f"{what}: more than {_MOST_UNROLLED} operators after loops are unrolled; carry a "
            "tensor of fixed size through paddle.static.nn.while_loop instead"
        )


def add_op(parser: BlockParser, source: Operator, made: RegionOp) -> RegionOp:
    """Append an op to the current block, with the location of its operator."""
    if source.location is not None:
        file, line = source.location
        made.location = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))
    parser.frame.target.add_op(made)
    return made
