"""Names of ops for users: the kind of op, and the line of the script that made it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NoneAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import FETCH, result_port


def joined_location(ops: Iterable[Operation]) -> LocationAttr:
    """Join the locations of several ops into one."""
    found = list(dict.fromkeys(op.location for op in ops if op.location != UnknownLoc()))
    if len(found) < 2:
        return found[0] if found else UnknownLoc()
    return FusedLoc(ArrayAttr[Attribute](found), NoneAttr())


def source_line(location: Attribute) -> str:
    """Format a location as `file:line`, the first one of several; "" if it is not known."""
    if isinstance(location, FusedLoc):
        several = cast(ArrayAttr[Attribute], location.locations)
        return next((line for line in map(source_line, several) if line), "")
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}"
    return ""


def show_op(op: Operation) -> str:
    """Format an op as its name and the name of its first result."""
    if not op.results:
        return op.name
    hint = op.results[0].name_hint
    return f"{op.name} %{hint}" if hint else op.name


def how_used(user: Operation, index: int) -> str:
    """Describe the reader of a value that is operand `index` of `user`."""
    if isinstance(user, Yield):
        around = user.parent_op()
        return f"yielded from {around.name if around else 'a region'}"
    if isinstance(user, Grad):
        return "differentiated (a gradient is taken with respect to it)"
    if isinstance(user, ReturnOp):
        function = user.parent_op()
        if isinstance(function, FuncOp):
            port = result_port(function, index)
            kind = "fetched" if port.kind == FETCH else "kept as state"
            return f"{kind} ('{port.name}')"
    return f"also read by {show_op(user)}"
