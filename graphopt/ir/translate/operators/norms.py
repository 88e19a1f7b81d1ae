"""Normalization: by statistics of batches, by lengths, by neighboring channels."""

from __future__ import annotations

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.math import Add, AddN, Divide, Multiply, Pow, Scale, Sqrt, Square
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.dialect.types import rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.table import BY_TYPE


@translates("batch_norm", "sync_batch_norm")
def batch_norm(emit: Emitter) -> Written:
    """Translate batch norm; moving statistics that only pass through keep their values."""
    sync = {"sync": True} if emit.op.type == "sync_batch_norm" else {}
    written = emit.by_row(row=BY_TYPE["batch_norm"], **sync)
    norm = written[emit.op.output("Y")[0]].owner
    if isinstance(norm, BatchNorm) and norm.keeps_statistics:
        written |= emit.results(MeanOut=norm.mean, VarianceOut=norm.variance)
    return written


@translates("norm")
def norm(emit: Emitter) -> Written:
    """Emit the lengths along one axis, and the tensor divided by them."""
    emit.only_constants_besides("X")
    x, axis = emit.input("X"), emit.attr("axis")
    total = emit(Sum, emit(Square, x), axis=(axis,), keepdim=True)
    length = emit(Sqrt, emit(Scale, total, bias=emit.attr("epsilon")))
    return emit.results(Norm=length, Out=emit(Divide, x, length))


# an end past the end of any axis
_END = 2**31 - 1


@translates("lrn")
def lrn(emit: Emitter) -> Written:
    """Divide x by (k + alpha * sum of squares of n neighboring channels) ** beta."""
    emit.only("X")
    x, count = emit.input("X"), emit.attr("n")
    rank = rank_of(x.type)
    axis = rank - 1 if emit.attr("data_format") == "NHWC" else 1
    if rank < 3 or count < 1:
        raise ProgramError(
            f"lrn cannot normalize over {count} channels of {list(shape_of(x.type))}"
        )
    around = [0] * (2 * rank)
    around[2 * axis : 2 * axis + 2] = [(count - 1) // 2, count - 1 - (count - 1) // 2]
    squares = emit(Pad, emit(Square, x), paddings=around)
    near = [
        emit(Slice, squares, axes=(axis,), starts=(i,), ends=(i + 1 - count or _END,))
        for i in range(count)
    ]
    middle = emit.scale(emit(AddN, near), emit.attr("alpha"), emit.attr("k"))
    out = emit(Multiply, x, emit(Pow, middle, factor=-emit.attr("beta")))
    return emit.results(Out=out, MidOut=middle)


@translates("affine_channel")
def affine_channel(emit: Emitter) -> Written:
    """Multiply each channel by a factor and add a number."""
    emit.only("X", "Scale", "Bias")
    x = emit.input("X")
    rank, layout = rank_of(x.type), emit.attr("data_layout")
    axis = rank - 1 if layout == "NHWC" or rank < 2 else 1
    scale, bias = (emit.along(emit.input(slot), rank, axis) for slot in ("Scale", "Bias"))
    return emit.results(Out=emit(Add, emit(Multiply, x, scale), bias))
