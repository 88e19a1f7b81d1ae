"""Lookups by indices, slices at positions that tensors give, and the largest elements."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.dynamic import Nonzero
from graphopt.ir.dialect.ops.index import DequantizeRows, Embedding, Gather, OneHot
from graphopt.ir.dialect.ops.math import Add, Cast, LessThan, Where
from graphopt.ir.dialect.ops.shape import Concat, ShapeOf, Slice, Squeeze
from graphopt.ir.dialect.ops.sort import Topk
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axis, rank_of, shape_of, show
from graphopt.ir.program import Operator, is_sparse_lookup
from graphopt.ir.translate.open_ends import without_ends_of_paddle_2
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sparse import sparse_embedding
from graphopt.ir.translate.releases import saved_by_paddle_2


@translates("lookup_table_dequant")
def lookup_table_dequant(emit: Emitter) -> Written:
    """Look up rows of an 8-bit table with a minimum and maximum per row; `padding_idx` is 0."""
    emit.only("Ids", "W")
    ids, table = emit.input("Ids"), emit.input("W")
    if shape_of(ids.type)[-1:] != (1,):
        raise ProgramError(f"lookup_table_dequant needs ids [..., 1], found {show(ids.type)}")
    numbers = emit(Squeeze, ids, axis=(-1,))
    rows = emit(Embedding, numbers, table, padding_idx=emit.attr("padding_idx"))
    return emit.results(Out=emit(DequantizeRows, rows))


@translates("lookup_table")
def lookup_table(emit: Emitter) -> Written:
    """Look up ids; the first version of the operator drops their trailing axis of size 1."""
    ids = emit.input("Ids")
    if shape_of(ids.type)[-1:] == (1,):
        ids = emit(Squeeze, ids, axis=(-1,))
    return _looked_up(emit, ids)


@translates("lookup_table_v2")
def lookup_table_v2(emit: Emitter) -> Written:
    return _looked_up(emit, emit.input("Ids"))


def _looked_up(emit: Emitter, ids: SSAValue) -> Written:
    table, padding = emit.input("W"), emit.attr("padding_idx")
    if emit.builder.trains and padding != -1 and is_sparse_lookup(emit.op):
        return emit.results(Out=sparse_embedding(emit, ids, table, padding))
    return emit.results(Out=emit(Embedding, ids, table, padding_idx=padding))


@translates("one_hot")
def one_hot(emit: Emitter) -> Written:
    """Emit a one-hot; in the first version the classes replace a trailing axis of size 1."""
    emit.only_constants_besides("X", "depth_tensor")
    x = emit.input("X")
    if shape_of(x.type)[-1:] != (1,):
        raise ProgramError(
            f"one_hot needs numbers with a last dimension of 1, found {list(shape_of(x.type))}; "
            "append one, or use one_hot_v2"
        )
    attrs: dict[str, Any] = {"allow_out_of_range": emit.attr("allow_out_of_range")}
    depth = emit.optional("depth_tensor")
    if depth is None:
        attrs["depth"] = int(emit.op.attr("depth"))
    tensors = {} if depth is None else {"depth": emit.reshape(depth, 1)}
    return emit.results(Out=emit.dynamic(OneHot, [emit(Squeeze, x, axis=(-1,))], attrs, tensors)[0])


@translates("top_k")
def top_k(emit: Emitter) -> Written:
    emit.only_constants_besides("X")
    out, indices = emit.all(Topk, emit.input("X"), k=emit.attr("k"))
    return emit.results(Out=out, Indices=indices)


@translates("slice")
def translate_slice(emit: Emitter) -> Written:
    """Translate a slice; an axis that is dropped at a position from a tensor becomes a lookup.

    Then no size depends on data. Paddle writes `x[i]` with a tensor `i` that way; its end, i + 1,
    adds no information.
    """
    value, op = emit.input("Input"), emit.op
    axes = [normalize_axis(int(axis), rank_of(value.type)) for axis in op.attr("axes")]
    dropped = {
        normalize_axis(int(axis), rank_of(value.type))
        for axis in op.attrs.get("decrease_axis") or ()
    }
    starts, ends = _bounds(emit, "Starts", len(axes)), _bounds(emit, "Ends", len(axes))
    given = emit.inputs("StartsTensorList") or emit.inputs("StartsTensor")
    if not given or starts is None or ends is None or dropped.isdisjoint(axes):
        return emit.by_row()
    cuts = {axis: bounds for axis, *bounds in zip(axes, starts, ends, strict=True)}
    for axis in dropped.intersection(axes):
        start = cuts[axis][0]
        if isinstance(start, int):
            size = shape_of(value.type)[axis]
            if size != UNKNOWN and not -size <= start < size:
                raise ProgramError(f"index {start} is out of range for axis {axis} of size {size}")
            cuts[axis][1] = start + 1 if start != -1 else _END
    places = {axis: cuts[axis][0] for axis in dropped if axis in cuts}
    looked_up = {axis: at for axis, at in places.items() if isinstance(at, SSAValue)}
    value = _cut(emit, value, {a: b for a, b in cuts.items() if a not in looked_up})
    for axis in sorted(dropped, reverse=True):
        if axis in looked_up:
            place = _from_the_start(emit, value, emit.reshape(looked_up[axis]), axis)
            value = emit(Gather, value, place, axis=axis)
        else:
            value = emit(Squeeze, value, axis=(axis,))
    return emit.results(Out=value)


_Bound = int | SSAValue
# the default end of a slice, past the end of any axis
_END = 2**31 - 1


def _bounds(emit: Emitter, kind: str, count: int) -> list[_Bound] | None:
    """Return the starts or ends of a slice, as numbers where they are known.

    Return None for one tensor of several unknown bounds.
    """
    values = emit.inputs(f"{kind}TensorList")
    whole = None if values else emit.optional(f"{kind}Tensor")
    if whole is not None:
        known = known_numbers(whole)
        if known is not None:
            return [int(number) for number in known]
        if count != 1:
            return None
        values = [whole]
    if not values:
        return [int(number) for number in emit.op.attr(kind.lower())]
    # known bounds are attributes, too, where -1 stands for a tensor
    written = emit.several(kind.lower())
    written = written if len(written) == len(values) else [-1] * len(values)
    return [
        _choose_bound(value, int(number)) for value, number in zip(values, written, strict=True)
    ]


def _choose_bound(value: SSAValue, written: int) -> _Bound:
    known = known_numbers(value)
    if known is not None:
        return int(known[0])
    return value if written == -1 else written


def _cut(emit: Emitter, x: SSAValue, cuts: dict[int, list[_Bound]]) -> SSAValue:
    """Slice these ranges of some axes of x."""
    if not cuts:
        return x
    attrs: dict[str, Any] = {"axes": tuple(cuts)}
    tensors: dict[str, SSAValue] = {}
    for at, name in enumerate(("starts", "ends")):
        bounds = [pair[at] for pair in cuts.values()]
        numbers = [bound for bound in bounds if isinstance(bound, int)]
        if len(numbers) == len(bounds):
            attrs[name] = tuple(numbers)
        else:
            tensors[name] = emit(Concat, [_as_tensor(emit, bound) for bound in bounds], axis=0)
    return emit.dynamic(Slice, [x], attrs, tensors)[0]


def _as_tensor(emit: Emitter, bound: _Bound) -> SSAValue:
    """Convert a bound to a vector of one int64."""
    if isinstance(bound, int):
        return emit(AssignValue, shape=(1,), values=(bound,), dtype="int64")
    return emit.reshape(emit(Cast, bound, dtype="int64"), 1)


def _from_the_start(emit: Emitter, x: SSAValue, position: SSAValue, axis: int) -> SSAValue:
    """Convert a position that may count from the end of an axis to one from the start."""
    size = shape_of(x.type)[axis]
    dtype = dtype_of(position.type)
    if size == UNKNOWN:
        own = emit(Slice, emit(ShapeOf, x), axes=(0,), starts=(axis,), ends=(axis + 1,))
        length = emit(Cast, emit.reshape(own), dtype=dtype)
    else:
        length = emit(AssignValue, shape=(), values=(size,), dtype=dtype)
    negative = emit(LessThan, position, emit(FullLike, position, value=0.0))
    return emit(Where, negative, emit(Add, position, length), position)


@translates("index_put")
def index_put(emit: Emitter) -> Written:
    """Translate index_put; a bool index becomes the indices of its true elements, per axis."""
    indices = [part for index in emit.inputs("indices") for part in _numbers_of(emit, index)]
    return emit.by_row(emit.input("x"), indices, emit.input("value"))


def _numbers_of(emit: Emitter, index: SSAValue) -> list[SSAValue]:
    """Return an integer index, or convert a bool tensor to an index for each of its axes."""
    if dtype_of(index.type) != "bool":
        return [index]
    found = emit(Nonzero, index)
    columns = [
        emit(Slice, found, axes=(1,), starts=(axis,), ends=(axis + 1,))
        for axis in range(rank_of(index.type))
    ]
    return [emit(Squeeze, column, axis=(1,)) for column in columns]


@translates("strided_slice")
def strided_slice(emit: Emitter) -> Written:
    return emit.by_row(**_open_ends(emit.op, "strides"))


def _open_ends(op: Operator, strides: str) -> dict[str, Any]:
    """Build `ends` for a file of Paddle 2, whose -1 is no end if the stride is negative.

    Empty if tensors give all ends or all strides.
    """
    ends, steps = op.attrs["ends"], op.attrs[strides]
    if not saved_by_paddle_2(op) or len(ends) != len(steps):
        return {}
    return {"ends": without_ends_of_paddle_2(ends, steps)}


@translates("set_value")
def set_value(emit: Emitter) -> Written:
    """Translate set_value; the value is a tensor or listed in the attributes."""
    attrs = emit.op.attrs
    target = emit.input("Input")
    if emit.inputs("ValueTensor"):
        value = emit.input("ValueTensor")
    else:
        listed = next((v for n, v in attrs.items() if n.endswith("values") and v), ())
        shape, dtype = attrs.get("shape") or (len(listed),), dtype_of(target.type)
        value = emit(AssignValue, shape=shape, values=listed, dtype=dtype)
    extra = _new_axes(emit, rank_of(target.type), rank_of(value.type))
    value = emit(Squeeze, value, axis=extra) if extra else value
    return emit.by_row(target, value, **_open_ends(emit.op, "steps"))


def _new_axes(emit: Emitter, rank: int, value_rank: int) -> tuple[int, ...]:
    """Find the axes of the value that None creates in the index; they have size 1.

    Paddle notes the axis of the target at which each None stood, counting dropped axes.
    """
    nones, dropped = list(emit.several("none_axes")), emit.several("decrease_axes")
    is_new: list[bool] = []
    for axis in range(rank):
        while nones and nones[0] <= axis:
            is_new.append(True)
            nones.pop(0)
        if axis not in dropped:
            is_new.append(False)
    is_new += [True] * len(nones)
    first = len(is_new) - value_rank
    return tuple(axis - first for axis, new in enumerate(is_new) if new and axis >= first)
