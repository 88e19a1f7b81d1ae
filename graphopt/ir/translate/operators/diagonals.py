"""Tensors whose diagonals are replaced: by a number, or by the rows of another tensor."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.math import Where
from graphopt.ir.dialect.ops.scatter import PutAlongAxis
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axis, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("fill_diagonal")
def fill_diagonal(emit: Emitter) -> Written:
    """Fill the main diagonal with a number; with `wrap`, again below it in a tall matrix."""
    emit.only("X")
    x, offset, wrap = emit.input("X"), emit.attr("offset"), emit.attr("wrap")
    shape = shape_of(x.type)
    if len(shape) < 2 or UNKNOWN in shape:
        raise UnsupportedError(
            f"fill_diagonal needs two or more axes of known sizes, found {list(shape)}"
        )
    on = np.zeros(shape, bool)
    if len(shape) == 2:
        rows = np.arange(shape[0])
        columns = rows % (shape[1] + 1 if wrap else sum(shape) + 1) + offset
        kept = (columns >= 0) & (columns < shape[1])
        on[rows[kept], columns[kept]] = True
    else:
        on[(np.arange(min(shape)),) * len(shape)] = True
    mask = emit(AssignValue, shape=shape, values=on.ravel().tolist(), dtype="bool")
    number = emit(Full, shape=(), value=float(emit.attr("value")), dtype=dtype_of(x.type))
    return emit.results(Out=emit(Where, mask, number, x))


@translates("fill_diagonal_tensor")
def fill_diagonal_tensor(emit: Emitter) -> Written:
    """Write y [..., n] to the diagonals of x along two axes; other axes are the same in both.

    For a matrix Paddle gives y one more axis: [1, n].
    """
    emit.only("X", "Y")
    x, y, offset = emit.input("X"), emit.input("Y"), int(emit.attr("offset"))
    rank = rank_of(x.type)
    first, second = (normalize_axis(int(emit.attr(name)), rank) for name in ("dim1", "dim2"))
    order = [axis for axis in range(rank) if axis not in (first, second)] + [first, second]
    rows, columns = (shape_of(x.type)[axis] for axis in (first, second))
    if first == second or UNKNOWN in (rows, columns):
        raise UnsupportedError(
            f"fill_diagonal_tensor along the axes {first} and {second} of {list(shape_of(x.type))}:"
            " they must be two axes of known sizes"
        )
    if rank == 2:
        y = emit.reshape(y, -1)
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    if rank_of(y.type) != rank - 1 or shape_of(y.type)[-1] not in (len(places), UNKNOWN):
        raise ProgramError(
            f"fill_diagonal_tensor: y should have {rank - 1} axes, the last with one element for "
            f"each of the {len(places)} positions of the diagonal, found {list(shape_of(y.type))}"
        )
    moved = emit(Transpose, x, perm=tuple(order))
    flat = emit.reshape(moved, *[0] * (rank - 2), rows * columns)
    shape = (1,) * (rank - 2) + (len(places),)
    index = emit(AssignValue, shape=shape, values=places, dtype="int64")
    filled = emit(PutAlongAxis, flat, index, y, axis=rank - 2)
    square = emit.reshape(filled, *[0] * (rank - 2), rows, columns)
    back: list[int] = [order.index(axis) for axis in range(rank)]
    out: SSAValue = emit(Transpose, square, perm=tuple(back))
    return emit.results(Out=out)
