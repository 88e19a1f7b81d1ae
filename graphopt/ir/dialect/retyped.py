"""Retyping: rebuild a program, op by op, for arguments of other types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.signature import Port, main_function, signature_of
from graphopt.ir.dialect.types import Tensor

# the new type of an argument
Retype = Callable[[Port], Tensor]
Attrs = Callable[[PdOp], Mapping[str, Any]]


def retype_module(module: ModuleOp, retype: Retype, attrs: Attrs) -> ModuleOp | None:
    """Rebuild a program for arguments of other types; None if an op does not accept them.

    Also None for a program with regions. `attrs` returns the properties of each op, which may name
    dtypes and sizes.
    """
    made = module.clone()
    function = main_function(made)
    old, new = function.body.block, Block()
    ports = signature_of(made).arguments
    values: dict[SSAValue, SSAValue] = {}
    for port, argument in zip(ports, old.args, strict=True):
        values[argument] = new.insert_arg(retype(port), len(new.args))
    for op in list(old.ops):
        if isinstance(op, RegionOp):
            return None
        if isinstance(op, PdOp):
            groups = [[values[value] for value in group] for group in op.operand_groups()]
            try:
                copy = type(op).make(*groups, **attrs(op))
            except ProgramError:
                return None
            new.add_op(copy)
            values.update(zip(op.results, copy.results, strict=True))
        elif isinstance(op, ReturnOp):
            new.add_op(ReturnOp(*(values[value] for value in op.operands)))
    outs = [value.type for value in new.last_op.operands] if new.last_op is not None else []
    function.body.detach_block(old)
    function.body.add_block(new)
    function.function_type = FunctionType.from_lists([a.type for a in new.args], outs)
    return made
