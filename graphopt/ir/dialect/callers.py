"""The ops of a module that call Python while a step runs."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.callback import Assert, Print, PrintGradient, PyFunc, PyFuncBackward

# identifies an op that calls Python: the op's name, and its function or variables
Caller = tuple[str, Any]


def caller(op: Operation) -> Caller | None:
    """Return the caller key of an op; None for an op that does not call Python."""
    if isinstance(op, (PyFunc, PyFuncBackward)):
        return op.name, op.attr("function")
    if isinstance(op, (Print, PrintGradient)):
        return op.name, op.attr("variable")
    return (op.name, op.attr("variables")) if isinstance(op, Assert) else None


def callers(module: ModuleOp) -> dict[Caller, PdOp]:
    """Map each caller key of a module to its op."""
    found = ((caller(op), op) for op in module.walk())
    return {key: op for key, op in found if key is not None and isinstance(op, PdOp)}
