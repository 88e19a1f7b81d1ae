"""Shapes and dtypes of an operator's outputs, at the moment a script appends it.

The operator is translated into a scratch block, whose op types say what the outputs are; so a
program is checked by the same type rules when it is built and when it is compiled.
"""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.program import Operator
from graphopt.ir.translate import Translator
from graphopt.ir.types import dtype_of, shape_of, tensor


def infer_outputs(op: Operator) -> None:
    """Set the shape and dtype of every variable that `op` writes.

    Raises ProgramError when an input is not declared or the operands do not fit.
    """
    scratch = Block()
    values: dict[str, SSAValue] = {}

    def read(name: str) -> SSAValue:
        if name not in values:
            variable = op.block.find_var(name)
            if variable is None:
                raise ProgramError(f"'{name}' is not a variable of this program")
            type_ = tensor(variable.shape, variable.dtype)
            values[name] = scratch.insert_arg(type_, len(scratch.args))
        return values[name]

    written = Translator(scratch, read).translate(op)
    for name, value in written.items():
        variable = op.block.find_var(name)
        if variable is None:
            variable = op.block.create_var(name)
        if variable.persistable and variable.has_type:
            continue  # an update keeps the declared type
        variable.shape = shape_of(value.type)
        variable.dtype = dtype_of(value.type)
