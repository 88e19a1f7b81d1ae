"""Frames of a signal, which may overlap, and their sum: frame and overlap_add."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.index import Gather, IndexAdd
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("frame")
def frame(emit: Emitter) -> Written:
    """Cut a signal into frames.

    Along the last axis they are [..., length, frames], along axis 0 [frames, length, ...]. The
    length of the signal must be known.
    """
    emit.only("X")
    x, axis = emit.input("X"), _axis(emit)
    length, hop = emit.attr("frame_length"), emit.attr("hop_length")
    size = shape_of(x.type)[axis]
    if not 0 < length <= size or hop <= 0:
        raise ProgramError(
            f"frames of length {length} with hop_length {hop} do not match a signal of length "
            f"{size}; the length of the signal must be known, and 'hop_length' above 0"
        )
    count = 1 + (size - length) // hop
    found = emit(Gather, x, _places(emit, count, length, hop), axis=axis)
    if axis == 0:
        return emit.results(Out=emit.reshape(found, count, length, *_kept_dims(x, 1)))
    parts = emit.reshape(found, *_kept_dims(x, 0)[:-1], count, length)
    return emit.results(Out=_swap_last_axes(emit, parts))


@translates("overlap_add")
def overlap_add(emit: Emitter) -> Written:
    """Add up frames [..., length, frames], or [frames, length, ...] for axis 0, in their places."""
    emit.only("X")
    x, axis, hop = emit.input("X"), _axis(emit), emit.attr("hop_length")
    parts = x if axis == 0 else _swap_last_axes(emit, x)
    shape = shape_of(parts.type)
    count, length = shape[:2] if axis == 0 else shape[-2:]
    if UNKNOWN in (count, length) or not 0 < hop <= length:
        raise ProgramError(
            f"overlap_add of {count} frames of length {length} with hop_length {hop}: the number "
            "and length of frames must be known, and 'hop_length' from 1 to the length"
        )
    rest = _kept_dims(x, 2) if axis == 0 else ()
    row = emit.reshape(parts, *(_kept_dims(x, 0)[:-2] if axis else ()), count * length, *rest)
    total = (count - 1) * hop + length
    firsts = emit(AssignValue, shape=(total,), values=(0,) * total, dtype="int64")
    zeros = emit(FullLike, emit(Gather, row, firsts, axis=axis), value=0.0)
    places = _places(emit, count, length, hop)
    return emit.results(Out=emit(IndexAdd, zeros, places, row, axis=axis))


def _axis(emit: Emitter) -> int:
    axis = emit.attr("axis")
    if axis not in (0, -1):
        raise ProgramError(f"operator {emit.op.type}: 'axis' should be 0 or -1, found {axis}")
    return axis


def _kept_dims(x: SSAValue, first: int) -> tuple[int, ...]:
    """List the sizes from axis `first` on, for a reshape; ProgramError for several open ones."""
    shape = shape_of(x.type)[first:]
    if shape.count(UNKNOWN) > 1:
        raise ProgramError(f"frames of {list(shape_of(x.type))}: several dimensions are unknown")
    return tuple(-1 if size == UNKNOWN else size for size in shape)


def _swap_last_axes(emit: Emitter, x: SSAValue) -> SSAValue:
    """Swap the last two axes."""
    *lead, left, right = range(rank_of(x.type))
    return emit(Transpose, x, perm=(*lead, right, left))


def _places(emit: Emitter, count: int, length: int, hop: int) -> SSAValue:
    """Emit the positions in the signal of the elements of frames, frame by frame."""
    values = [hop * each + at for each in range(count) for at in range(length)]
    return emit(AssignValue, shape=(len(values),), values=values, dtype="int64")
