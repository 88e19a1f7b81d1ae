"""Shape and dtype inference for the outputs of an operator that a script appends.

The operator is translated into a scratch block, whose op types are the types of the outputs. So the
same type rules check a program when it is built and when it is compiled.
"""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.types import dtype_of, shape_of, tensor
from graphopt.ir.program import Operator, VarKind, undo
from graphopt.ir.program.gradients_on_demand import compute_gradients
from graphopt.ir.translate.blocks.feeds import declare
from graphopt.ir.translate.blocks.program import HANDLERS
from graphopt.ir.translate.operators.translator import Translator


def infer_outputs(op: Operator) -> None:
    """Set the shape and dtype of every variable that `op` writes.

    Gradients that `op` reads and that were only declared are computed from now on. Operators with
    sub-blocks and operators on tensor arrays have typed outputs from the start. Raises ProgramError
    if an input is not declared or the operands do not fit.
    """
    compute_gradients(op.block, op.input_arg_names)
    if op.type == "data":
        declare(op)
    if op.type in HANDLERS and not _is_plain_assign(op):
        return
    scratch = Block()
    values: dict[str, SSAValue] = {}

    def read(name: str) -> SSAValue:
        if name not in values:
            variable = op.block.find_var(name)
            if variable is None:
                raise ProgramError(
                    f"'{name}' is not a variable of this program, and variables of other programs "
                    "cannot be read: build both in one static.program_guard, or feed the value"
                )
            type_ = tensor(variable.shape, variable.dtype)
            values[name] = BlockArgument(type_, scratch, len(values))
        return values[name]

    translator = Translator(scratch, read)
    translator.only_types = True
    written = translator.translate(op)
    for name, value in written.items():
        variable = op.block.find_var(name)
        if variable is None:
            variable = op.block.create_var(name)
        if variable.persistable and variable.has_type:
            continue  # an update keeps the declared type
        undo.note_attributes(variable, "_shape", "_dtype")
        variable.shape = shape_of(value.type)
        variable.dtype = dtype_of(value.type)


def _is_plain_assign(op: Operator) -> bool:
    """True for a copy of a tensor, not of an array."""
    source = op.block.find_var(op.input_arg_names[0]) if op.type == "assign" else None
    return source is not None and source.kind != VarKind.TENSOR_ARRAY
