"""Construction of a sub-block and of the operator that runs it, with the names it uses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from graphopt.frontend.mode import current_op_attrs
from graphopt.ir.dialect.shapes import UNKNOWN
from graphopt.ir.program import (
    EMPTY,
    AttrKind,
    Block,
    Operator,
    Program,
    Variable,
    VarKind,
    default_main_program,
    undo,
    unique_name,
)
from graphopt.ir.program.location import caller_level


@contextmanager
def new_block() -> Iterator[Block]:
    """Open a block inside the current one to append operators to; remove it on an error.

    A tensor from an enclosing block keeps the sizes that the block does not change. The block may
    run any number of times, so the changed sizes are unknown after it.
    """
    program = default_main_program()
    with undo.transaction():
        parent = program.current_block()
        before = _shapes_from(parent)
        block = program._create_block(parent.idx)
        yield block
        program.current_block_idx = parent.idx
        for name in reads_and_writes(block)[1]:
            if name in before:
                _open_changed_sizes(parent._var_recursive(name), before[name])


def _shapes_from(block: Block | None) -> dict[str, tuple[int, ...]]:
    """Collect the shapes of the variables that a sub-block of this block can write."""
    if block is None:
        return {}
    own = {name: one.shape for name, one in block.vars.items() if one.has_type}
    return {**_shapes_from(block.parent), **own}


def _open_changed_sizes(variable: Variable, before: Sequence[int]) -> None:
    now = variable.shape
    if len(now) == len(before) and tuple(now) != tuple(before):
        undo.note_attributes(variable, "_shape")
        sizes = zip(before, now, strict=True)
        variable.shape = [old if old == new else UNKNOWN for old, new in sizes]


def reads_and_writes(block: Block) -> tuple[list[str], list[str]]:
    """List the outer names that a block reads before writing them, and those it writes."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for op in block.ops:
        reads.update(dict.fromkeys(n for n in op.input_arg_names if n not in writes))
        writes.update(dict.fromkeys(op.output_arg_names))
    parent = block.parent
    assert parent is not None

    def from_outside(names: Mapping[str, None]) -> list[str]:
        return [n for n in names if n != EMPTY and parent.find_var(n) is not None]

    own = {n for n, variable in block.vars.items() if not variable.persistable}
    return (
        [n for n in from_outside(reads) if n not in own],
        [n for n in from_outside(writes) if n not in own],
    )


def append_block_op(
    type: str,
    block: Block,
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
) -> Operator:
    """Append the operator that runs `block` to its parent block."""
    parent = block.parent
    assert parent is not None
    given = {**current_op_attrs(), **attrs, "sub_block": block.idx}
    if given.get("op_device"):
        warnings.warn(f"The Op({type}) is not support to set device.", stacklevel=caller_level())
        given["op_device"] = ""
    op = parent.append_op(type, inputs, outputs, given)
    op.attr_kinds["sub_block"] = AttrKind.BLOCK
    return op


def scopes_of(block: Block) -> Variable:
    """Create the variable in which Paddle keeps a sub-block's scopes; graphopt never reads it."""
    return block.create_var(unique_name.generate("_generated_var"), kind=VarKind.STEP_SCOPES)


def is_array(value: Any) -> bool:
    """True for a Variable that is a tensor array."""
    return isinstance(value, Variable) and value.kind == VarKind.TENSOR_ARRAY


def parent_of_current(program: Program) -> Block:
    """Return the parent of the current block; raise RuntimeError in the global block."""
    parent = program.current_block().parent
    if parent is None:
        raise RuntimeError("this call must be inside a block of a control-flow statement")
    return parent
