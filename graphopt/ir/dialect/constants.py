"""Small values that follow from a program without running it, such as `shape(x)[2:] * 2`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.math import Add, Cast, FloorDivide, Multiply, Scale, Subtract
from graphopt.ir.dialect.ops.shape import (
    Assign,
    Concat,
    ShapeOf,
    Slice,
    Stack,
    slice_bounds,
)
from graphopt.ir.dialect.traits import keeps_order
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, element_count, rank_of, shape_of

Numbers = tuple[float, ...]
# the elements of a value, None for those known only at run time
Partly = tuple[float | None, ...]

# A larger constant is data, not a shape.
_LARGEST = 64
_ARITHMETIC: Mapping[type[PdOp], Callable[[float, float], float | None]] = {
    Add: lambda a, b: a + b,
    Subtract: lambda a, b: a - b,
    Multiply: lambda a, b: a * b,
    FloorDivide: lambda a, b: a // b if b else None,
}


def known_numbers(value: SSAValue) -> Numbers | None:
    """The elements of a vector or scalar in order, None when they depend on the run."""
    found = partly_known(value)
    if found is None or any(number is None for number in found):
        return None
    return tuple(number for number in found if number is not None)


def partly_known(value: SSAValue) -> Partly | None:
    """The elements in order, None for unknown ones; None when their number is unknown."""
    shape = shape_of(value.type)
    op = value.owner
    if isinstance(op, ShapeOf):
        return tuple(None if dim == UNKNOWN else dim for dim in shape_of(op.input.type))
    if UNKNOWN in shape or element_count(shape) > _LARGEST:
        return None
    found = _elements(op) if isinstance(op, PdOp) else None
    return (None,) * element_count(shape) if found is None else found


def _elements(op: PdOp) -> Partly | None:
    """The result of an op that only moves or adds small constants."""
    if isinstance(op, AssignValue):
        return op.attr("values")
    if isinstance(op, Full):
        return (op.attr("value"),) * element_count(op.attr("shape"))
    if keeps_order(op):
        return partly_known(op.operands[0])
    if isinstance(op, Cast):
        return _cast(op)
    if isinstance(op, Concat) or (isinstance(op, Stack) and rank_of(op.inputs[0].type) == 0):
        parts = [partly_known(part) for part in op.inputs]
        if any(part is None for part in parts):
            return None
        return tuple(number for part in parts for number in part or ())
    if isinstance(op, Slice) and rank_of(op.input.type) == 1:
        return _sliced(op)
    if isinstance(op, Scale):
        return _scaled(op)
    if type(op) in _ARITHMETIC:
        return _computed(op)
    return None


def _cast(op: Cast) -> Partly | None:
    given = partly_known(op.x)
    if given is None or dtype_of(op.results[0].type).is_floating:
        return given
    return tuple(None if number is None else int(number) for number in given)


def _sliced(op: Slice) -> Partly | None:
    whole = partly_known(op.input)
    if whole is None:
        return None
    low, high = slice_bounds(len(whole), op.attr("starts")[0], op.attr("ends")[0])
    return whole[low:high]


def _scaled(op: Scale) -> Partly | None:
    given = partly_known(op.x)
    if given is None or dtype_of(op.x.type).is_floating:
        return None
    scale, bias = op.attr("scale"), op.attr("bias")
    if not op.attr("bias_after_scale"):
        bias *= scale
    return tuple(None if number is None else number * scale + bias for number in given)


def _computed(op: PdOp) -> Partly | None:
    """Elementwise arithmetic on integers, one side of which may be a single number."""
    a, b = (partly_known(operand) for operand in op.operands)
    if a is None or b is None or dtype_of(op.operands[0].type).is_floating:
        return None
    a, b = (side * (max(len(a), len(b)) if len(side) == 1 else 1) for side in (a, b))
    if len(a) != len(b):
        return None
    compute = _ARITHMETIC[type(op)]
    pairs = zip(a, b, strict=True)
    return tuple(None if x is None or y is None else compute(x, y) for x, y in pairs)


def measured(value: SSAValue) -> SSAValue | None:
    """The images whose height and width, `shape(y)[2:]`, are in this value; None for another."""
    op = value.owner
    if isinstance(op, (Assign, Cast)):
        return measured(op.x)
    if not isinstance(op, Slice) or not isinstance(op.input.owner, ShapeOf):
        return None
    rank = shape_of(op.input.type)[0]
    bounds = slice_bounds(rank, op.attr("starts")[0], op.attr("ends")[0])
    return op.input.owner.input if bounds == (2, rank) else None
