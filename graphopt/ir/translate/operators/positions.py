"""Position encodings of 1.8: sines and cosines of the place of each row in its sequence."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.elementary import Cos, Sin
from graphopt.ir.dialect.ops.math import Add, Cast, Multiply, Subtract
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.ops.sequence.layers import SequenceExpand
from graphopt.ir.dialect.ops.shape import Concat, Slice
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of, show
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sequences import sequences


@translates("add_position_encoding")
def add_position_encoding(emit: Emitter) -> Written:
    """Emit alpha * x + beta * sines and cosines of positions, for [n, t, d] or sequences [r, d]."""
    emit.only("X", SLOT)
    x = emit.input("X")
    rank, width = rank_of(x.type), shape_of(x.type)[-1]
    if rank not in (2, 3) or width == UNKNOWN or width % 2:
        raise ProgramError(
            f"add_position_encoding needs rows [n, t, d], or sequences [rows, d], with an even d; "
            f"found {show(x.type)}"
        )
    if rank == 2:
        table = _table(emit, _places_in_sequences(emit, *sequences(emit)), width)
    elif shape_of(x.type)[1] == UNKNOWN:
        table = _table(emit, _count_places(emit, x, 1), width)
    else:
        numbers = _numbers(np.arange(shape_of(x.type)[1])[None, :, None], width)
        table = emit.array(numbers, "float64")
    encoding = emit.scale(emit(Cast, table, dtype=dtype_of(x.type)), emit.attr("beta"))
    return emit.results(Out=emit(Add, emit.scale(x, emit.attr("alpha")), encoding))


def _rates(width: int) -> np.ndarray:
    """Compute the growth of the angle of each pair of columns per position."""
    half = width // 2
    return 10000.0 ** -(np.arange(half) / (half - 1) if half > 1 else np.ones(1))


def _numbers(places: np.ndarray, width: int) -> np.ndarray:
    angles = places * _rates(width)
    return np.concatenate([np.sin(angles), np.cos(angles)], -1)


def _table(emit: Emitter, places: SSAValue, width: int) -> SSAValue:
    """Emit sines and cosines, as float64, of positions [..., 1] that a run decides."""
    angles = emit(Multiply, places, emit.array(_rates(width), "float64"))
    return emit(Concat, [emit(Sin, angles), emit(Cos, angles)], axis=rank_of(places.type) - 1)


def _count_places(emit: Emitter, x: SSAValue, axis: int) -> SSAValue:
    """Emit the positions 0, 1, ... along an axis, as float64 with a last axis of size 1."""
    column = emit(Slice, x, axes=(rank_of(x.type) - 1,), starts=(0,), ends=(1,))
    ones = emit(FullLike, column, value=1.0, dtype="float64")
    return emit(Cumsum, ones, axis=axis, exclusive=True)


def _places_in_sequences(emit: Emitter, x: SSAValue, lengths: SSAValue) -> SSAValue:
    """Emit the position of each row in its sequence, as float64 [rows, 1]."""
    starts = emit(Cumsum, emit(Cast, lengths, dtype="float64"), axis=0, exclusive=True)
    own = emit(SequenceExpand, emit.reshape(starts, -1, 1), x, lengths)
    return emit(Subtract, _count_places(emit, x, 0), own)
