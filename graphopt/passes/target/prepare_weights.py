"""Values that depend on parameters alone move out of the step: `@prepare` computes them.

Transposed filters and folded batch norms are equal in every step of a program without updates.
`@main` takes them as arguments, and the runtime computes them again only when a parameter has a new
value. So parameters do not change in the scope and in saved files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import (
    PREPARED,
    STATE,
    function_signature,
    main_function,
    prepare_function,
    signature_of,
)
from graphopt.ir.dialect.signature_edit import edit_signature, port_attributes
from graphopt.ir.dialect.types import byte_count
from graphopt.passes.engine.fixed_values import fixed_values
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass

# results larger than their operands by more than this factor are computed in each step
GROWTH = 2


@dataclass(frozen=True)
class PrepareWeights(RewritePass):
    """Move values computed from parameters alone into `@prepare`."""

    name = "prepare-weights"
    numerics = Numerics.BIT_EXACT
    changes_signature: ClassVar[bool] = True

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        if prepare_function(module) is not None:
            return []
        moved = _movable(module, log)
        if moved:
            for op in moved:
                log.applied(op)
            _move(module, moved)
        return log.outcomes


def _movable(module: ModuleOp, log: RewriteLog) -> list[Operation]:
    """Select the ops to move, in order: they read parameters, constants and each other."""
    fixed, reason = fixed_values(module), _reason(module)
    constants: set[SSAValue] = set()
    moved: dict[Operation, None] = {}
    for op in main_function(module).body.block.ops:
        if not op.results or op.results[0] not in fixed:
            continue
        if all(value in constants for value in op.operands):
            constants.update(op.results)
            continue
        made = (value.owner for value in op.operands if value not in constants)
        if not all(isinstance(owner, Block) or owner in moved for owner in made):
            continue
        why = reason or _grows(op)
        if why is not None:
            log.declined(op, why)
        elif log.allow(op):
            moved[op] = None
    return list(moved)


def _reason(module: ModuleOp) -> Reason | None:
    """Return the reason why every op of a program stays in the step, else None."""
    writes = signature_of(module).writes
    if writes:
        return Reason(
            "updates-state",
            f"the program updates state ('{writes[0]}'), so all ops stay in the step",
        )
    if any(isinstance(op, Grad) for op in module.walk()):
        return Reason("differentiated", "the program takes gradients, which may go through the op")
    return None


def _grows(op: Operation) -> Reason | None:
    made = sum(byte_count(result.type) for result in op.results)
    if made <= GROWTH * sum(byte_count(operand.type) for operand in op.operands):
        return None
    text = f"{made} bytes would be kept, more than {GROWTH} times the size of the operands"
    return Reason("grows", text)


def _move(module: ModuleOp, moved: Sequence[Operation]) -> None:
    inside, main = set(moved), main_function(module)
    needed = [
        result
        for op in moved
        for result in op.results
        if any(use.operation not in inside for use in result.uses)
    ]
    names = [f"prepared_{number}" for number in range(len(needed))]
    module.body.block.insert_op_before(_prepare(main, moved, needed, names), main)
    with edit_signature(main) as edit:
        taken = [
            edit.add(value.type, port_attributes(PREPARED, name))
            for value, name in zip(needed, names, strict=True)
        ]
        replace_uses(dict(zip(needed, taken, strict=True)))
        for op in reversed(moved):
            op.detach()
            op.erase()
        # read only by `@prepare` from now on
        edit.drop([argument for argument in edit.state.values() if not argument.uses])


def _prepare(
    main: FuncOp, moved: Sequence[Operation], needed: Sequence[SSAValue], names: Sequence[str]
) -> FuncOp:
    """Build the function of the moved ops; it returns the needed values."""
    read = {value for op in moved for value in op.operands}
    arguments = [argument for argument in main.args if argument in read]
    block = Block(arg_types=[argument.type for argument in arguments])
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
    for old, new in values.items():
        new.name_hint = old.name_hint
    for op in moved:
        _copy(op, block, values)
    block.add_op(ReturnOp(*(values[value] for value in needed)))
    known = function_signature(main).arguments
    ports = [known[argument.index] for argument in arguments]
    types = FunctionType.from_lists(block.arg_types, [value.type for value in needed])
    return FuncOp(
        "prepare",
        types,
        Region(block),
        arg_attrs=ArrayAttr([port_attributes(STATE, port.name) for port in ports]),
        res_attrs=ArrayAttr([port_attributes(PREPARED, name) for name in names]),
    )


def _copy(op: Operation, block: Block, values: dict[SSAValue, SSAValue]) -> None:
    """Copy an op, and the constants that it reads, to the end of a block."""
    for operand in op.operands:
        if operand not in values and isinstance(operand, OpResult):
            _copy(operand.op, block, values)
    block.add_op(op.clone(values))
