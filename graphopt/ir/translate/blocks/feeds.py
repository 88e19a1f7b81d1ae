"""The operator `data`: its output is the value fed under its `name` attribute."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.ir.program import Operator, undo
from graphopt.ir.translate.blocks.block import BlockParser, Handler


def declare(op: Operator) -> None:
    """Declare the fed variable in the program, with the shape that the operator states."""
    block, name = op.block, str(op.attrs["name"])
    for out in (block.var(name) for name in op.output("out")):
        undo.note_attributes(out, "_shape")
        out.shape = [int(size) for size in op.attrs.get("shape", ())]
        if block.find_var(name) is None:
            block.create_var(name, out.shape, out.dtype, is_data=True, need_check_feed=True)


def _data(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    fed = parser.read(str(op.attrs["name"]))
    return dict.fromkeys(op.output("out"), fed)


FEEDS: Mapping[str, Handler] = {"data": _data}
