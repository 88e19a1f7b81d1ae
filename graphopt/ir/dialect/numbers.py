"""The numbers of ops: their places in a walk over their module, those in regions included.

Two modules with one text have one numbering, so a number says which op of a program is meant where
neither the op's object nor a name does: in compiled code, in a profile, in a drawing.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation


def ops_by_number(module: ModuleOp) -> tuple[Operation, ...]:
    """All ops of a module; the number of each is its index."""
    return tuple(module.walk())


def numbers_of(module: ModuleOp) -> dict[Operation, int]:
    """The number of each op."""
    return {op: number for number, op in enumerate(ops_by_number(module))}
