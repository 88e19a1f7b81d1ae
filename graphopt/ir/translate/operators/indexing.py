"""Lookups by indices, slices at positions that tensors give, and the largest elements."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.index import Embedding, Gather, OneHot
from graphopt.ir.dialect.ops.math import Add, Cast, LessThan, Where
from graphopt.ir.dialect.ops.shape import ShapeOf, Slice, Squeeze
from graphopt.ir.dialect.ops.sort import Topk
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axis, rank_of, shape_of
from graphopt.ir.program import is_sparse_lookup
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sparse import sparse_embedding


@translates("lookup_table")
def lookup_table(emit: Emitter) -> Written:
    """The first version of the operator takes ids with a trailing 1 and drops it."""
    ids = emit.input("Ids")
    if shape_of(ids.type)[-1:] == (1,):
        ids = emit(Squeeze, ids, axis=(-1,))
    return _looked_up(emit, ids)


@translates("lookup_table_v2")
def lookup_table_v2(emit: Emitter) -> Written:
    return _looked_up(emit, emit.input("Ids"))


def _looked_up(emit: Emitter, ids: SSAValue) -> Written:
    table, padding = emit.input("W"), emit.attr("padding_idx", -1)
    if emit.builder.trains and padding != -1 and is_sparse_lookup(emit.op):
        return emit.results(Out=sparse_embedding(emit, ids, table, padding))
    return emit.results(Out=emit(Embedding, ids, table, padding_idx=padding))


@translates("one_hot")
def one_hot(emit: Emitter) -> Written:
    """The first version takes numbers with a trailing 1, which the classes replace."""
    emit.only_constants_besides("X", "depth_tensor")
    x = emit.input("X")
    if shape_of(x.type)[-1:] != (1,):
        raise ProgramError(
            f"one_hot needs numbers with a last dimension of 1, found {list(shape_of(x.type))}; "
            "append one, or use one_hot_v2"
        )
    attrs: dict[str, Any] = {"allow_out_of_range": emit.attr("allow_out_of_range", False)}
    depth = emit.optional("depth_tensor")
    if depth is None:
        attrs["depth"] = int(emit.op.attr("depth"))
    tensors = {} if depth is None else {"depth": emit.reshaped(depth, 1)}
    return emit.results(Out=emit.dynamic(OneHot, [emit(Squeeze, x, axis=(-1,))], attrs, tensors)[0])


@translates("top_k")
def top_k(emit: Emitter) -> Written:
    emit.only_constants_besides("X")
    out, indices = emit.all(Topk, emit.input("X"), k=emit.attr("k", 1))
    return emit.results(Out=out, Indices=indices)


@translates("slice")
def sliced(emit: Emitter) -> Written:
    """A lookup where tensors give all positions and the axes are dropped: no size is from data.

    Paddle writes `x[i]` with a tensor `i` that way.
    """
    positions = _positions(emit)
    if positions is None:
        return emit.by_row()
    value = emit.input("Input")
    for axis, position in sorted(positions.items(), reverse=True):
        place = _from_the_start(emit, value, emit.reshaped(position), axis)
        value = emit(Gather, value, place, axis=axis)
    return emit.results(Out=value)


def _from_the_start(emit: Emitter, x: SSAValue, position: SSAValue, axis: int) -> SSAValue:
    """A position that may count from the end of an axis, as one that does not."""
    size = shape_of(x.type)[axis]
    dtype = dtype_of(position.type)
    if size == UNKNOWN:
        own = emit(Slice, emit(ShapeOf, x), axes=(0,), starts=(axis,), ends=(axis + 1,))
        length = emit(Cast, emit.reshaped(own), dtype=dtype)
    else:
        length = emit(AssignValue, shape=(), values=(size,), dtype=dtype)
    negative = emit(LessThan, position, emit(FullLike, position, value=0.0))
    return emit(Where, negative, emit(Add, position, length), position)


def _positions(emit: Emitter) -> dict[int, SSAValue] | None:
    """The position on each axis when all are tensors and all axes are dropped, else None."""
    op = emit.op
    starts = emit.inputs("StartsTensorList")
    if not starts and len(op.attr("axes")) == 1:
        starts = emit.inputs("StartsTensor")
    rank = rank_of(emit.input("Input").type)
    axes = [normalize_axis(int(axis), rank) for axis in op.attr("axes")]
    dropped = {normalize_axis(int(axis), rank) for axis in op.attrs.get("decrease_axis") or ()}
    if len(starts) != len(axes) or set(axes) != dropped or rank == 0:
        return None
    if all(known_numbers(value) is not None for value in starts):
        return None
    return dict(zip(axes, starts, strict=True))


@translates("set_value")
def set_value(emit: Emitter) -> Written:
    """The value is a tensor or listed in the attributes."""
    attrs = emit.op.attrs
    if attrs.get("none_axes"):
        raise UnsupportedError("set_value with new axes (None) in the index")
    target = emit.input("Input")
    if emit.inputs("ValueTensor"):
        return emit.by_row()
    listed = next((v for n, v in attrs.items() if n.endswith("values") and v), ())
    shape, dtype = attrs.get("shape") or (len(listed),), dtype_of(target.type)
    return emit.by_row(target, emit(AssignValue, shape=shape, values=listed, dtype=dtype))
