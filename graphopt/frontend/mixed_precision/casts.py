"""Casts before an operator, and the dtypes that its variables are declared with."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from graphopt.ir.dtypes import DType, float32
from graphopt.ir.program import Block, Operator, Program, Variable, VarKind, undo
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.program.sub_blocks import names_in, sub_blocks
from graphopt.ir.translate import infer_outputs

Keeps = Callable[[Operator, str], bool]
"""True for a slot that stays float32 in a half-precision operator, such as running means."""


def has_dtype(variable: Variable | None, *dtypes: str) -> bool:
    """True for a tensor of one of these dtypes."""
    if variable is None or variable.kind != VarKind.DENSE_TENSOR or not variable.has_type:
        return False
    return variable.dtype in dtypes


def retype(variable: Variable, dtype: DType) -> None:
    """Declare a variable with another dtype."""
    undo.note_attributes(variable, "_dtype", "saved")
    variable.dtype, variable.saved = dtype, None


def insert_casts(
    op: Operator,
    position: int,
    source: DType,
    target: DType,
    keeps: Keeps,
    *,
    half: str = "fp16",
) -> int:
    """Cast an operator's inputs of dtype `source` to `target`; return the number of casts inserted.

    `position` is the operator's index in its block. The cast of `x` is `x.cast_fp32` or, with the
    suffix `half`, `x.cast_fp16`. Later operators read it too, unless `x` is written in between.

    A derivative keeps its inputs, since its targets do not depend on a new cast of them. Its
    results are cast instead.
    """
    if op.type == GRAD_TYPE:
        return _cast_gradients(op, position)
    block, inserted = op.block, 0
    for slot in sorted(op.input_names):
        if source == float32 and keeps(op, slot):
            continue
        for name in op.input(slot):
            variable = block.find_var(name)
            if variable is None or not has_dtype(variable, source):
                continue
            cast = f"{name}.cast_{'fp32' if target == float32 else half}"
            if not _is_current(block, cast, name, position + inserted, target):
                made = block.create_var(cast, dtype=target, stop_gradient=variable.stop_gradient)
                _insert(position, op, variable, made)
                inserted += 1
            op._rename_input(name, cast)
    return inserted


def cast_each(program: Program, cast: Callable[[Operator, int], int]) -> None:
    """Call `cast(op, position)` for each operator; it returns the number of casts inserted."""
    for block in program.blocks:
        position = 0
        while position < len(block.ops):
            position += 1 + cast(block.ops[position], position)


def _is_current(block: Block, cast: str, name: str, end: int, target: DType) -> bool:
    """True if the cast of a variable exists and holds its value before position `end`."""
    found = block.find_var(cast)
    if found is None or not has_dtype(found, target):
        return False
    for op in reversed(block.ops[:end]):
        if cast in op.output_arg_names:
            return True
        if name in op.output_arg_names:
            return False
    return found.block is not block


def _cast_gradients(op: Operator, position: int) -> int:
    """Cast gradients to the declared dtypes of a derivative's results; return the number of casts.

    A gradient has the dtype of the variable it is taken with respect to.
    """
    block, inserted = op.block, 0
    for name, gradient in zip(op.input("X"), op.output("XGrad"), strict=True):
        source, made = block._var_recursive(name), block._var_recursive(gradient)
        if source.dtype == made.dtype:
            continue
        raw = block.create_var(f"{gradient}.{source.dtype}", made.shape, source.dtype)
        op._rename_output(gradient, raw.name)
        inserted += 1
        _insert(position + inserted, op, raw, made)
    return inserted


def _insert(position: int, op: Operator, source: Variable, made: Variable) -> None:
    """Insert the cast of a variable that `op` reads or writes."""
    attrs = {
        "in_dtype": source.dtype.code,
        "out_dtype": made.dtype.code,
        "op_role": op.role,
        "op_device": op.attr("op_device"),
    }
    cast = op.block._insert_op(position, "cast", {"X": source}, {"Out": made}, attrs)
    cast.location = op.location


def writes_its_input(op: Operator, keeps: Keeps) -> bool:
    """True for an operator that writes one of the inputs that a cast would replace."""
    read = {name for slot in op.input_names if not keeps(op, slot) for name in op.input(slot)}
    return not read.isdisjoint(op.output_arg_names)


def has_block(op: Operator) -> bool:
    """True for branches and loops, whose operators compute in float32."""
    return bool(sub_blocks(op))


def fixed_by_blocks(program: Program) -> set[str]:
    """Collect the variables that branches and loops read or write; they keep their dtype."""
    found: set[str] = set()
    for op in filter(has_block, operators(program)):
        found.update(op.input_arg_names, op.output_arg_names)
        for written in (True, False):
            for inner in sub_blocks(op):
                found.update(names_in(inner, written=written))
    return found


def last_writer(ops: Iterable[Operator], op: Operator, name: str) -> Operator | None:
    """Find the last operator before `op` that writes a variable."""
    found: Operator | None = None
    for other in ops:
        if other is op:
            break
        if name in other.output_arg_names:
            found = other
    return found


def infer_again(program: Program, changed: Container[Operator]) -> None:
    """Infer the result types of changed operators again, from their present operands.

    Raises ProgramError, naming the user's line, where the operands of an operator do not fit.
    """
    for op in operators(program):
        if op in changed:
            infer_outputs(op)


def operators(program: Program) -> Iterator[Operator]:
    """Iterate over the operators of all blocks."""
    for block in program.blocks:
        yield from list(block.ops)
