"""Destination of each element of a projection in the heads, traced through shape ops.

Reshapes, transposes, splits and slices can divide columns among heads in many equivalent ways. The
ops are applied to an array of source indices; the result is compared with the two layouts that
fused attention supports. So any equivalent chain is recognized, and one with a wrong axis or order
is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, OpResult, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.known import constant
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Divide, Multiply, Scale
from graphopt.ir.dialect.ops.rearrange import RepeatInterleave, Tile, Unbind
from graphopt.ir.dialect.ops.shape import (
    Expand,
    Flatten,
    Reshape,
    ReshapeLike,
    Slice,
    Split,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.types import (
    rank_of,
    resolve_shape,
    shape_of,
    split_sizes,
)

Array = np.ndarray[Any, Any]
# stand-ins for the sizes of batch and time, which may be unknown
ROWS = (2, 3)


def source_indices(columns: int) -> Array:
    """Number the elements of a projection, as an array [batch, time, columns]."""
    return np.arange(ROWS[0] * ROWS[1] * columns).reshape(*ROWS, columns)


def heads_of(indices: Array, heads: int, part: int, layout: str) -> Array:
    """Take q, k or v, by number, from a joint projection, as [n, heads, length, size]."""
    size = indices.shape[-1] // (3 * heads)
    if layout == "split":
        return indices.reshape(*ROWS, 3, heads, size)[:, :, part].transpose(0, 2, 1, 3)
    return indices.reshape(*ROWS, heads, 3, size)[:, :, :, part].transpose(0, 2, 1, 3)


@dataclass(frozen=True)
class Edit:
    """Other properties for one op, to check whether they would help."""

    op: PdOp
    attrs: Mapping[str, Any]


def axes_of(array: Array, columns: int) -> str:
    """Name the axes of heads in order, by the strides between their elements.

    n is the batch, t is time, h counts the heads, and d the elements of a head.
    """
    # a single column is an element of a head, but has the stride of time
    steps = {1: "d", columns: "t", columns * ROWS[1]: "n"}
    found = ""
    for axis in range(array.ndim):
        lines = np.moveaxis(array, axis, 0)
        found += "h" if len(lines) == 1 else steps.get(int((lines[1] - lines[0]).flat[0]), "h")
    return found


def trace(
    value: SSAValue,
    start: SSAValue,
    indices: Array,
    edit: Edit | None = None,
    passed: Mapping[PdOp, SSAValue] | None = None,
) -> Array | None:
    """Trace the elements of `value` back to `start`, whose elements are `indices`.

    Return None if a step is not understood. With an `edit`, trace as if the op had those
    properties. The ops in `passed` leave the elements of one operand in place.
    """
    if value is start:
        return indices
    op = value.owner
    if isinstance(op, PdOp) and passed and op in passed:
        return trace(passed[op], start, indices, edit, passed)
    if not isinstance(op, PdOp) or not isinstance(value, OpResult) or type(op) not in _STEPS:
        return None
    before = trace(_moved_operand(op), start, indices, edit, passed)
    if before is None:
        return None
    edited: Mapping[str, Any] = edit.attrs if edit is not None and edit.op is op else {}
    try:
        return _STEPS[type(op)](op, {**op.attr_values(), **edited}, value.index, before)
    except (ProgramError, ValueError, IndexError):
        return None  # the edit does not fit this op, or an op after it


def _moved_operand(op: PdOp) -> SSAValue:
    """Return the operand whose elements an op moves or scales, skipping a leading constant."""
    first = op.operands[0]
    in_front = isinstance(op, Multiply) and constant(first) is not None
    return op.operands[1] if in_front else first


def origin(value: SSAValue) -> Operation | Block:
    """Find the op that computed the elements which reach `value` only moved and scaled."""
    owner = value.owner
    while isinstance(owner, PdOp) and type(owner) in _STEPS:
        owner = _moved_operand(owner).owner
    return owner


def edits(op: PdOp) -> Iterator[Edit]:
    """Yield other ways to move the same elements with one op."""
    attrs, rank = op.attr_values(), rank_of(op.operands[0].type)
    if isinstance(op, Transpose):
        orders = permutations(range(rank)) if rank < 5 else _swaps(attrs["perm"])
        yield from (Edit(op, {"perm": order}) for order in orders)
    elif isinstance(op, Reshape):
        head, tail = attrs["shape"][:2], attrs["shape"][2:]
        yield from (Edit(op, {"shape": (*head, *order)}) for order in permutations(tail))
    elif isinstance(op, Flatten):
        bounds = combinations(range(rank), 2)
        yield from (Edit(op, {"start_axis": a, "stop_axis": b}) for a, b in bounds)
    elif isinstance(op, (Split, Unbind)):
        yield from (Edit(op, {"axis": axis}) for axis in range(rank))
    elif isinstance(op, Slice) and len(attrs["axes"]) == 1:
        yield from (Edit(op, {"axes": (axis,)}) for axis in range(rank))
        axis: int = attrs["axes"][0]
        length = shape_of(op.operands[0].type)[axis] // 3
        for part in range(3):
            cut = {"starts": (part * length,), "ends": ((part + 1) * length,)}
            yield Edit(op, {name: new for name, new in cut.items() if new != attrs[name]})


def _swaps(axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for a, b in combinations(range(len(axes)), 2):
        order = list(axes)
        order[a], order[b] = axes[b], axes[a]
        yield tuple(order)


Attrs = Mapping[str, Any]


def _same(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    return array


def _transpose(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    return array.transpose(attrs["perm"])


def _reshape(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    """Reshape the dimensions after batch and time; None if these two change."""
    have = shape_of(op.operands[0].type)
    found = resolve_shape(have, attrs["shape"])
    if found[:2] != have[:2]:
        return None
    return array.reshape(*ROWS, *found[2:]) if _rows_lead(array) else None


def _rows_lead(array: Array) -> bool:
    """True when the first two axes are still batch and time: each step of time is the next row."""
    rows = array.reshape(ROWS[0] * ROWS[1], -1)
    step = rows[1, 0] - rows[0, 0]
    even = (rows == rows[:1] + np.arange(len(rows))[:, None] * step).all()
    # the columns of a row span less than the step to the next row
    return bool(even and np.ptp(rows[0]) < step)


def _flatten(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    rank = array.ndim
    start, stop = attrs["start_axis"] % rank, attrs["stop_axis"] % rank
    return array.reshape(*array.shape[:start], -1, *array.shape[stop + 1 :])


def _has_known_size(op: PdOp, axis: int, array: Array) -> bool:
    """True when the stand-in has the real size along an axis."""
    return shape_of(op.operands[0].type)[axis] == array.shape[axis]


def _split(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    axis = attrs["axis"] % array.ndim
    if not _has_known_size(op, axis, array):
        return None
    sizes = split_sizes(array.shape[axis], attrs["num"], attrs["sections"])
    return np.split(array, np.cumsum(sizes)[:-1], axis)[index]


def _unbind(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    axis = attrs["axis"] % array.ndim
    return np.take(array, index, axis) if _has_known_size(op, axis, array) else None


def _slice(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    for axis, start, end in zip(attrs["axes"], attrs["starts"], attrs["ends"], strict=True):
        if not _has_known_size(op, axis, array):
            return None
        array = array[(slice(None),) * (axis % array.ndim) + (slice(start, end),)]
    return np.squeeze(array, tuple(attrs["decrease_axis"]))


def _squeeze(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    axes = tuple(attrs["axis"])
    return np.squeeze(array, axes) if axes else None


def _reshape_like(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    """Merge the dimensions after batch and time into one; the length may be a -1."""
    wanted, like = attrs["shape"], shape_of(op.operands[1].type)
    if len(wanted) != 3 or wanted[0] == -1:
        return None
    fits = all(
        size in (0, -1) or (size,) == like[at : at + 1] for at, size in enumerate(wanted[:2])
    )
    return array.reshape(*ROWS, wanted[2]) if fits else None


def _unsqueeze(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    for position in attrs["axis"]:
        array = np.expand_dims(array, position)
    return array


def _tile(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    return np.tile(array, attrs["repeat_times"])


def _expand(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    """Expand axes of one element; raise ValueError for other axes and for new axes in front."""
    have, wanted = shape_of(op.operands[0].type), attrs["shape"]
    sizes = zip(have, wanted, array.shape, strict=True)
    shape = [own if size in (-1, was) else size if was == 1 else 0 for was, size, own in sizes]
    return np.broadcast_to(array, shape)


def _repeat(op: PdOp, attrs: Attrs, index: int, array: Array) -> Array | None:
    return np.repeat(array, attrs["repeats"], attrs["axis"])


_STEPS: Mapping[type[PdOp], Callable[[PdOp, Attrs, int, Array], Array | None]] = {
    Scale: _same,
    Multiply: _same,
    Divide: _same,
    Transpose: _transpose,
    Reshape: _reshape,
    Flatten: _flatten,
    Split: _split,
    Unbind: _unbind,
    Slice: _slice,
    Squeeze: _squeeze,
    ReshapeLike: _reshape_like,
    Unsqueeze: _unsqueeze,
    Tile: _tile,
    Expand: _expand,
    RepeatInterleave: _repeat,
}
