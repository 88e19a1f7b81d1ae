"""Where each element of a projection goes on its way into the heads, traced through shape ops.

Reshapes, transposes, splits and slices can divide columns among heads in many equivalent ways. The
ops are applied to an array whose elements say where they come from; what comes out is compared
with the two layouts that fused attention knows. So any chain that means the same is recognised,
and one with a wrong axis or order is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.ir import OpResult, SSAValue

from graphopt.ir.constants import known_numbers
from graphopt.ir.op import PdOp
from graphopt.ir.ops.math import Divide, Multiply, Scale
from graphopt.ir.ops.rearrange import Unbind
from graphopt.ir.ops.shape import Flatten, Reshape, Slice, Split, Squeeze, Transpose, split_sizes
from graphopt.ir.types import UNKNOWN, product, shape_of

Array = np.ndarray[Any, Any]
# stand-ins for the sizes of batch and time, which need not be known
ROWS = (2, 3)


def source_indices(columns: int) -> Array:
    """[rows, columns]: where each element of a projection is."""
    return np.arange(ROWS[0] * ROWS[1] * columns).reshape(*ROWS, columns)


def heads_of(indices: Array, heads: int, part: int, layout: str) -> Array:
    """q, k or v ([n, heads, length, size], by number) of a projection of all three."""
    size = indices.shape[-1] // (3 * heads)
    if layout == "split":
        return indices.reshape(*ROWS, 3, heads, size)[:, :, part].transpose(0, 2, 1, 3)
    return indices.reshape(*ROWS, heads, 3, size)[:, :, :, part].transpose(0, 2, 1, 3)


def trace(value: SSAValue, start: SSAValue, indices: Array) -> Array | None:
    """The elements of `value`, of which `start` has these; None when a step is not understood."""
    if value is start:
        return indices
    op = value.owner
    if not isinstance(op, PdOp) or not isinstance(value, OpResult):
        return None
    step = _STEPS.get(type(op))
    operand = op.operands[0]
    if isinstance(op, Multiply) and known_numbers(operand) is not None:
        operand = op.operands[1]
    before = trace(operand, start, indices) if step else None
    return step(op, value.index, before) if step and before is not None else None


def _same(op: PdOp, index: int, array: Array) -> Array | None:
    return array


def _transpose(op: PdOp, index: int, array: Array) -> Array | None:
    return array.transpose(op.attr("perm"))


def _reshape(op: PdOp, index: int, array: Array) -> Array | None:
    """Only of what is behind batch and time."""
    have, found = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    tail = found[2:]
    kept = [
        wanted == 0 or wanted == own != UNKNOWN
        for own, wanted in zip(have[:2], op.attr("shape")[:2], strict=False)
    ]
    if len(kept) < 2 or not any(kept) or UNKNOWN in tail or product(tail) != product(have[2:]):
        return None
    if array.shape[:2] != ROWS or len(tail) < 1:
        return None
    return array.reshape(*ROWS, *tail) if _rows_lead(array) else None


def _rows_lead(array: Array) -> bool:
    """True when the first two axes are still batch and time: one step of time is one row on."""
    rows = array.reshape(ROWS[0] * ROWS[1], -1)
    steps = np.arange(ROWS[0] * ROWS[1])[:, None] * (rows[1, :1] - rows[0, :1])
    return bool((rows == rows[:1] + steps).all()) if rows.size else False


def _flatten(op: PdOp, index: int, array: Array) -> Array | None:
    rank = array.ndim
    start, stop = op.attr("start_axis") % rank, op.attr("stop_axis") % rank
    return array.reshape(*array.shape[:start], -1, *array.shape[stop + 1 :])


def _known(op: PdOp, axis: int, array: Array) -> bool:
    """True when the stand-in has the real size along an axis."""
    return shape_of(op.operands[0].type)[axis] == array.shape[axis]


def _split(op: PdOp, index: int, array: Array) -> Array | None:
    axis = op.attr("axis") % array.ndim
    if not _known(op, axis, array):
        return None
    sizes = split_sizes(array.shape[axis], op.attr("num"), op.attr("sections"))
    return np.split(array, np.cumsum(sizes)[:-1], axis)[index]


def _unbind(op: PdOp, index: int, array: Array) -> Array | None:
    axis = op.attr("axis") % array.ndim
    return np.take(array, index, axis) if _known(op, axis, array) else None


def _slice(op: PdOp, index: int, array: Array) -> Array | None:
    for axis, start, end in zip(op.attr("axes"), op.attr("starts"), op.attr("ends"), strict=True):
        if not _known(op, axis, array):
            return None
        array = array[(slice(None),) * (axis % array.ndim) + (slice(start, end),)]
    return np.squeeze(array, tuple(op.attr("decrease_axis")))


def _squeeze(op: PdOp, index: int, array: Array) -> Array | None:
    axes = tuple(op.attr("axis"))
    if not axes or any(array.shape[axis] != 1 for axis in axes):
        return None
    return np.squeeze(array, axes)


_STEPS: Mapping[type[PdOp], Callable[[PdOp, int, Array], Array | None]] = {
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
}
