"""Values that a step computes only from state that no step writes: the same in every step."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.ops.base import DataSizedOp, PureOp
from graphopt.ir.dialect.ops.comm import Collective
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.signature import STATE, main_function, signature_of


def fixed_values(module: ModuleOp) -> set[SSAValue]:
    """Find values that depend only on constants and on state of `@main` that it does not write."""
    signature, block = signature_of(module), main_function(module).body.block
    written = set(signature.writes)
    found: set[SSAValue] = {
        value
        for value, port in zip(block.args, signature.arguments, strict=True)
        if port.kind == STATE and port.name not in written
    }
    for op in block.ops:
        if repeats(op) and all(operand in found for operand in op.operands):
            found.update(op.results)
    return found


def repeats(op: Operation) -> bool:
    """True for an op whose results depend on its operands alone."""
    if not isinstance(op, PureOp) or draws(op):
        return False
    return not isinstance(op, (DataSizedOp, Collective, RegionOp, Dynamic))
