"""Elements and slices by number: gathered, scattered, selected, sorted."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops import dynamic, scatter, sort
from graphopt.ir.dialect.ops import index as ops
from graphopt.ir.dialect.ops.creation import Arange
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.math import Add, Cast, LessThan, Multiply, Remainder, Subtract, Where
from graphopt.ir.dialect.ops.rearrange import Flip
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Expand,
    Reshape,
    ShapeOf,
    Slice,
    Squeeze,
    Unsqueeze,
)
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import END, OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads


@reads("Gather")
def gather(emit: OnnxEmitter, x: SSAValue, indices: SSAValue, *, axis: int = 0) -> SSAValue:
    """Emit a gather; a 0-D index drops the axis, an index of more dimensions adds axes."""
    at = emit.axis(axis, rank(x))
    numbers = emit.known_elements(indices)
    if not rank(indices) and numbers is not None:
        size = shape(x)[at]
        number = int(numbers[0])
        if size != UNKNOWN and not -size <= number < size:
            raise emit.refuse(f"element {number} is out of range for an axis of size {size}")
        end = number + 1 or END
        cut = {"axes": (at,), "starts": (number,), "ends": (end,)}
        return emit(Slice, x, **cut, decrease_axis=(at,))
    if numbers is not None and any(number < 0 for number in numbers):
        size = shape(x)[at]
        if size != UNKNOWN:
            wanted = [int(n) + size if n < 0 else int(n) for n in numbers]
            indices = emit.constant(wanted, "int64", shape(indices))
    is_table = dtype(x).is_floating and rank(x) == 2 and at == 0 and rank(indices) and _is_state(x)
    if numbers is None and not (is_table and _is_fed(emit, indices)):
        indices = from_start(emit, indices, _size(emit, x, at, indices))
    if is_table:
        return emit(ops.Embedding, indices, x)
    flat = indices if rank(indices) == 1 else emit.reshape(indices, -1)
    out = emit(ops.Gather, x, flat, axis=at)
    return out if rank(indices) == 1 else _with_axes(emit, out, x, indices, at)


def _is_state(x: SSAValue) -> bool:
    """True for a parameter, which passes know as the table of an embedding."""
    return isinstance(x, BlockArgument)


def _is_fed(emit: OnnxEmitter, indices: SSAValue) -> bool:
    """True for integer feeds, even if cast or reshaped: their index out of range is an error."""
    while isinstance(owner := indices.owner, (Cast, Reshape, Squeeze, Unsqueeze)):
        indices = owner.operands[0]
    fed = [each for each in emit.op.block.program.global_block().vars.values() if each.is_data]
    return dtype(indices).is_whole and any(emit.read(each.name) is indices for each in fed)


def _with_axes(
    emit: OnnxEmitter, out: SSAValue, x: SSAValue, indices: SSAValue, at: int
) -> SSAValue:
    """Reshape the gathered axis to the axes of the indices."""
    before, between, after = shape(x)[:at], shape(indices), shape(x)[at + 1 :]
    wanted = (*before, *between, *after)
    if wanted.count(UNKNOWN) <= 1:
        return emit.to_shape(out, wanted)
    sizes = [emit.shape(x), emit.shape(indices)]
    parts = [
        emit(Slice, sizes[0], axes=(0,), starts=(0,), ends=(at,)) if at else None,
        sizes[1] if between else None,
        emit(Slice, sizes[0], axes=(0,), starts=(at + 1,), ends=(rank(x),)) if after else None,
    ]
    return emit.to_shape(out, emit(Concat, [part for part in parts if part is not None], axis=0))


def from_start(emit: OnnxEmitter, indices: SSAValue, size: SSAValue | int) -> SSAValue:
    """Convert indices that count from the end to indices from the start."""
    numbers = emit.known_elements(indices)
    if numbers is not None and all(number >= 0 for number in numbers):
        return indices
    if isinstance(size, int):
        size = emit.constant([size], dtype(indices), ())
    is_from_end = emit(LessThan, indices, emit.constant([0], dtype(indices), ()))
    return emit(Where, is_from_end, emit(Add, indices, size), indices)


def _size(emit: OnnxEmitter, x: SSAValue, axis: int, indices: SSAValue) -> SSAValue | int:
    """Return the size of an axis, as a number or as a value in the dtype of the indices."""
    size = emit.size(x, axis)
    return size if isinstance(size, int) else emit.cast(size, dtype(indices))


@reads("GatherElements")
def gather_elements(
    emit: OnnxEmitter, x: SSAValue, indices: SSAValue, *, axis: int = 0
) -> SSAValue:
    at = emit.axis(axis, rank(x))
    others = zip(shape(x), shape(indices), strict=True)
    x = _cut_to(emit, x, [i for i, (a, b) in enumerate(others) if i != at and a != b], indices)
    index = from_start(emit, indices, _size(emit, x, at, indices))
    return emit(scatter.TakeAlongAxis, x, index, axis=at)


def _cut_to(emit: OnnxEmitter, x: SSAValue, axes: Sequence[int], indices: SSAValue) -> SSAValue:
    """Crop `x` to the size of the indices along these axes, where both sizes are known."""
    cut = [axis for axis in axes if UNKNOWN not in (shape(x)[axis], shape(indices)[axis])]
    if not cut:
        return x
    ends = tuple(shape(indices)[axis] for axis in cut)
    return emit(Slice, x, axes=tuple(cut), starts=(0,) * len(cut), ends=ends)


_REDUCTIONS = {"none": "assign", "add": "add", "mul": "mul", "max": "amax", "min": "amin"}


@reads("ScatterElements", "Scatter")
def scatter_elements(
    emit: OnnxEmitter,
    x: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> SSAValue:
    """Emit a scatter along an axis.

    If other axes of the indices may be shorter than in `x`, scatter by flat positions.
    """
    at = emit.axis(axis, rank(x))
    kind = _REDUCTIONS[emit.one_of(reduction, tuple(_REDUCTIONS))]
    index = from_start(emit, indices, _size(emit, x, at, indices))
    axes = range(rank(x))
    if kind in ("mul", "amax", "amin") and any(shape(x)[i] != shape(indices)[i] for i in axes):
        same = False
    else:
        same = True
    same = same and all(
        i == at or (a == b != UNKNOWN)
        for i, (a, b) in enumerate(zip(shape(x), shape(indices), strict=True))
    )
    if same:
        return emit(scatter.PutAlongAxis, x, index, updates, axis=at, reduce=kind)
    sizes = emit.sizes(x)
    parts: list[SSAValue] = []
    for i, size in enumerate(emit.sizes(indices, "the sizes of its indices")):
        dims = [1] * rank(x)
        dims[i] = size
        numbers = emit.to_shape(emit(Arange, start=0.0, end=float(size)), dims)
        parts.append(emit.cast(index, "int64") if i == at else numbers)
    return _put(emit, x, _flat_places(emit, parts, sizes), updates, kind)


def _flat_places(emit: OnnxEmitter, parts: Sequence[SSAValue], sizes: Sequence[int]) -> SSAValue:
    """Compute flat positions from the coordinates along each axis of these sizes."""
    total: SSAValue | None = None
    for i, part in enumerate(parts):
        factor = prod(sizes[i + 1 :])
        scaled = emit.scale(part, float(factor)) if factor != 1 else part
        total = scaled if total is None else emit(Add, total, scaled)
    assert total is not None
    return total


def _put(
    emit: OnnxEmitter, x: SSAValue, places: SSAValue, updates: SSAValue, kind: str
) -> SSAValue:
    """Scatter updates to flat positions of `x`."""
    flat, rows, values = (emit.reshape(value, -1) for value in (x, places, updates))
    out = emit(scatter.PutAlongAxis, flat, rows, values, axis=0, reduce=kind)
    return emit.to_shape(out, shape(x))


@reads("GatherND")
def gather_nd(
    emit: OnnxEmitter, x: SSAValue, indices: SSAValue, *, batch_dims: int = 0
) -> SSAValue:
    if batch_dims:
        indices = _with_batches(emit, indices, batch_dims)
    sizes = [_size(emit, x, i, indices) for i in range(shape(indices)[-1])]
    return emit(scatter.GatherNd, x, _each_from_start(emit, indices, sizes))


def _each_from_start(
    emit: OnnxEmitter, indices: SSAValue, sizes: Sequence[SSAValue | int]
) -> SSAValue:
    """Convert coordinates that count from the end to coordinates from the start."""
    if all(isinstance(size, int) for size in sizes):
        whole = emit.constant([int(s) for s in sizes if isinstance(s, int)], dtype(indices))
    else:
        parts = [
            emit.constant([s], dtype(indices)) if isinstance(s, int) else emit.reshape(s, 1)
            for s in sizes
        ]
        whole = emit(Concat, parts, axis=0)
    return from_start(emit, indices, whole)


def _with_batches(emit: OnnxEmitter, indices: SSAValue, count: int) -> SSAValue:
    """Prepend the batch coordinates to the indices."""
    sizes = emit.sizes(indices, "the sizes of its indices")
    parts: list[SSAValue] = []
    for i in range(count):
        dims = [1] * len(sizes)
        dims[i] = sizes[i]
        numbers = emit.to_shape(emit(Arange, start=0.0, end=float(sizes[i])), dims)
        parts.append(emit.cast(emit.expand(numbers, (*sizes[:-1], 1)), dtype(indices)))
    return emit(Concat, [*parts, indices], axis=len(sizes) - 1)


@reads("ScatterND")
def scatter_nd(
    emit: OnnxEmitter,
    x: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
    *,
    reduction: str = "none",
) -> SSAValue:
    """Scatter slices: flatten `x` to an axis of positions and an axis of their elements."""
    kind = _REDUCTIONS[emit.one_of(reduction, tuple(_REDUCTIONS))]
    sizes = emit.sizes(x)
    depth = shape(indices)[-1]
    if depth == UNKNOWN:
        raise emit.refuse("the number of coordinates is open")
    each = prod(sizes[depth:])
    index = _each_from_start(emit, indices, sizes[:depth])
    factors = [prod(sizes[i + 1 : depth]) for i in range(depth)]
    scaled = emit(Multiply, index, emit.constant(factors, dtype(indices)))
    rows = emit(Sum, scaled, axis=(rank(indices) - 1,), dtype=dtype(indices))
    flat = emit.to_shape(x, (prod(sizes[:depth]), each))
    rows = emit.reshape(rows, -1)
    values = emit.reshape(updates, -1, each)
    if kind == "assign":
        out = emit(scatter.Scatter, flat, rows, values)
    elif kind == "add":
        out = emit(scatter.ScatterNdAdd, flat, emit.unsqueeze(rows, 1), values)
    else:
        count = emit.sizes(values, "the sizes of its updates")[0]
        wide = emit.expand(emit.unsqueeze(rows, 1), (count, each))
        out = emit(scatter.PutAlongAxis, flat, wide, values, axis=0, reduce=kind)
    return emit.to_shape(out, sizes)


@reads("TopK")
def top_k(
    emit: OnnxEmitter,
    x: SSAValue,
    k: SSAValue | None = None,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
    **_: int,
) -> Sequence[SSAValue]:
    attrs = {"axis": emit.axis(axis, rank(x)), "largest": bool(largest), "sorted": bool(sorted)}
    assert k is not None
    if emit.known_elements(k) in ((0,), (0.0,)):
        none = emit(Slice, x, axes=(attrs["axis"],), starts=(0,), ends=(0,))
        return [none, emit.fill_like(none, 0, "int64")]
    count = k if not rank(k) else emit.to_shape(k, ())
    return emit.dynamic(sort.Topk, [x], attrs, {"k": count})


@reads("OneHot")
def one_hot(
    emit: OnnxEmitter, indices: SSAValue, depth: SSAValue, values: SSAValue, *, axis: int = -1
) -> SSAValue:
    """Emit a one-hot; negative indices count from the end, others out of range have no 1."""
    count = int(emit.numbers(depth, "depth")[0])
    off, on = (
        emit.squeeze(emit(Slice, values, axes=(0,), starts=(i,), ends=(i + 1,)), 0) for i in (0, 1)
    )
    index = emit.cast(indices, "int64")
    index = from_start(emit, index, count)
    hot = emit(ops.OneHot, index, depth=count, allow_out_of_range=True)
    at = emit.axis(axis, rank(hot))
    last = rank(hot) - 1
    perm = [*range(at), last, *range(at, last)]
    is_on = emit(Cast, emit.transpose(hot, perm), dtype="bool")
    return emit(Where, is_on, on, off)


@reads("NonZero")
def non_zero(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    """Transpose the coordinates: ONNX has a row for each axis, pd a row for each element."""
    if not rank(x):
        x = emit.unsqueeze(x, 0)
        found = emit(dynamic.Nonzero, x)
        return emit(Slice, emit.transpose(found, (1, 0)), axes=(0,), starts=(0,), ends=(0,))
    return emit.transpose(emit(dynamic.Nonzero, x), (1, 0))


@reads("Compress")
def compress(
    emit: OnnxEmitter, x: SSAValue, condition: SSAValue, *, axis: int | None = None
) -> SSAValue:
    """Select the slices where the condition holds; it may be shorter than the axis."""
    if axis is None:
        x, axis = emit.reshape(x, -1), 0
    places = emit.reshape(emit(dynamic.Nonzero, condition), -1)
    return emit(ops.Gather, x, places, axis=emit.axis(axis, rank(x)))


@reads("Unique")
def unique(
    emit: OnnxEmitter, x: SSAValue, *, axis: int | None = None, sorted: int = 1
) -> Sequence[SSAValue]:
    at = () if axis is None else (emit.axis(axis, rank(x)),)
    out, first, inverse, counts = emit.all(dynamic.Unique, x, axis=at)
    if sorted:
        return [out, first, inverse, counts]
    # in the order of first occurrence
    order = emit.all(sort.Argsort, first, axis=0)[1]
    place = emit.all(sort.Argsort, order, axis=0)[1]
    moved = [emit(ops.Gather, value, order) for value in (first, counts)]
    kept = emit(ops.Gather, out, order, axis=at[0] if at else 0)
    return [kept, moved[0], emit(ops.Gather, place, inverse), moved[1]]


@reads("ReverseSequence")
def reverse_sequence(
    emit: OnnxEmitter,
    x: SSAValue,
    lengths: SSAValue,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> SSAValue:
    """Reverse the first n steps of each sequence of length n; the steps after them stay."""
    batch, time = emit.axis(batch_axis, rank(x)), emit.axis(time_axis, rank(x))
    if _is_size(lengths, x, time):
        return emit(Flip, x, axis=(time,))
    steps = emit.along(emit.numbers_to(emit.size(x, time)), rank(x), time)
    counts = emit.along(emit.cast(lengths, "int64"), rank(x), batch)
    mirrored = emit(Subtract, emit.plus(counts, -1), steps)
    index = emit(Where, emit(LessThan, steps, counts), mirrored, steps)
    return emit(scatter.TakeAlongAxis, x, _expand_like(emit, index, x), axis=time)


def _is_size(value: SSAValue, x: SSAValue, axis: int) -> bool:
    """True if every element of `value` is computed as the open size of `x` along `axis`."""
    while isinstance(owner := value.owner, (Cast, Dynamic, Expand, Reshape, Squeeze, Unsqueeze)):
        if isinstance(owner, Dynamic) and owner.attr("op") != Expand.name:
            return False
        value = owner.operands[0]
    if not isinstance(owner, (Slice, ops.Gather)):
        return False
    if isinstance(owner, Slice):
        place = owner.attr("starts") if owner.attr("decrease_axis") else ()
    else:
        place = known_numbers(owner.operands[1])
    sizes = owner.operands[0].owner
    sizes = sizes.operands[0].owner if isinstance(sizes, Cast) else sizes
    return place == (axis,) and isinstance(sizes, ShapeOf) and sizes.operands[0] is x


def _expand_like(emit: OnnxEmitter, index: SSAValue, x: SSAValue) -> SSAValue:
    """Broadcast an index to the shape of `x`."""
    return emit.expand(index, emit.shape(x) if UNKNOWN in shape(x) else shape(x))


@reads("TensorScatter")
def tensor_scatter(
    emit: OnnxEmitter,
    cache: SSAValue,
    update: SSAValue,
    starts: SSAValue | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> SSAValue:
    """Write new steps of each sequence to its cache, from the sequence's own start on."""
    at = emit.axis(axis, rank(cache))
    places = emit.along(emit.numbers_to(emit.size(update, at)), rank(cache), at)
    if starts is not None:
        places = emit(Add, places, emit.along(emit.cast(starts, "int64"), rank(cache), 0))
    if emit.one_of(mode, ("linear", "circular")) == "circular":
        size = emit.size(cache, at)
        whole = size if isinstance(size, SSAValue) else emit.constant([size], "int64", ())
        places = emit(Remainder, places, whole)
    index = _expand_like(emit, places, update)
    return emit(scatter.PutAlongAxis, cache, index, update, axis=at)
