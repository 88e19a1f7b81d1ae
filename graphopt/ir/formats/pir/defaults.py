"""Add default attributes, so that operators are as Paddle writes them."""

from __future__ import annotations

import copy

from graphopt.ir.operators import operators
from graphopt.ir.program import AttrKind, Operator, Program


def complete(program: Program) -> Program:
    """Add the defaults of attributes that a program's operators lack; return the program.

    Operators that were read from a `.pdmodel` and not changed since stay as they were saved.
    """
    for block in program.blocks:
        for op in block.ops:
            if op.saved is None:
                _complete(op)
    return program


def _complete(op: Operator) -> None:
    row = operators().get(op.type)
    for name, attribute in row.attributes.items() if row is not None else ():
        if attribute.kind and attribute.stated is not None and op.attrs.get(name) is None:
            op.attrs[name] = copy.copy(attribute.default)
            op.attr_kinds[name] = getattr(AttrKind, attribute.kind.upper())
    if op.type == "cast" and op.attrs.get("in_dtype") is None:
        source = op.block.find_var(op.input("X")[0])
        if source is not None and source.has_type:
            op.attrs["in_dtype"] = source.dtype.code
