"""Small integer values that follow from a program without running it, such as `shape(x)[2:]`."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.ops.creation import AssignValue, Full
from graphopt.ir.ops.math import Cast
from graphopt.ir.ops.shape import (
    Assign,
    Concat,
    Reshape,
    ShapeOf,
    Slice,
    Squeeze,
    Unsqueeze,
    slice_bounds,
)
from graphopt.ir.types import UNKNOWN, element_count, rank_of, shape_of

Numbers = tuple[float, ...]


def known_numbers(value: SSAValue) -> Numbers | None:
    """The elements of a vector or scalar in order, None when they depend on the run."""
    op = value.owner
    if isinstance(op, ShapeOf):
        shape = shape_of(op.input.type)
        return None if UNKNOWN in shape else shape
    if isinstance(op, AssignValue):
        return op.attr("values")
    if isinstance(op, Full):
        return (op.attr("value"),) * element_count(shape_of(value.type))
    if isinstance(op, (Assign, Cast, Reshape, Squeeze, Unsqueeze)):
        return known_numbers(op.x)
    if isinstance(op, Concat):
        parts = [known_numbers(part) for part in op.inputs]
        if any(part is None for part in parts):
            return None
        return tuple(number for part in parts for number in part or ())
    if isinstance(op, Slice) and rank_of(op.input.type) == 1:
        return _sliced(op)
    return None


def _sliced(op: Slice) -> Numbers | None:
    """A part of a vector; of a shape, the rest of it need not be known."""
    source = op.input.owner
    whole = shape_of(source.input.type) if isinstance(source, ShapeOf) else known_numbers(op.input)
    if whole is None:
        return None
    low, high = slice_bounds(len(whole), op.attr("starts")[0], op.attr("ends")[0])
    part = whole[low:high]
    return None if isinstance(source, ShapeOf) and UNKNOWN in part else part


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
