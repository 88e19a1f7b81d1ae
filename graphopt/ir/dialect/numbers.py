"""Op numbers: positions in a walk over the module, ops in regions included.

Two modules with the same text have the same numbering, so a number identifies an op of a program
where neither the op's object nor a name does: in compiled code, in a profile, in a drawing.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation


def ops_by_number(module: ModuleOp) -> tuple[Operation, ...]:
    """List all ops of a module; the number of an op is its index."""
    return tuple(module.walk())


def numbers_of(module: ModuleOp) -> dict[Operation, int]:
    """Map each op of a module to its number."""
    return {op: number for number, op in enumerate(ops_by_number(module))}
