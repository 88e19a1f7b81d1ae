"""Ops whose sizes depend on data, and tensor arrays, each as one tensor of its elements."""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.dialect.ops import dynamic as ops
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.nodes import LAST, Nodes, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.Nonzero)
def nonzero(emit: Nodes, condition: Value) -> Value:
    return emit.transpose(emit("NonZero", condition), (1, 0))


@exports(ops.MaskedSelect)
def masked_select(emit: Nodes, x: Value, mask: Value) -> Value:
    whole = emit("Expand", x, emit.shape(mask))
    chosen = emit("Expand", mask, emit.shape(x))
    return emit("Compress", emit.reshape(whole, [-1]), emit.reshape(chosen, [-1]))


@exports(ops.Unique)
def unique(emit: Nodes, x: Value, axis: tuple[int, ...], dtype: DType) -> tuple[Value, ...]:
    along = normalize_axis(axis[0], len(sizes_of(x))) if axis else None
    dtypes = (None, "int64", "int64", "int64")
    out, *found = emit.all("Unique", x, dtypes=dtypes, axis=along, sorted=1)
    return out, *(emit.cast(each, dtype) for each in found)


def _place(emit: Nodes, position: Value) -> Value:
    return emit.reshape(emit.cast(position, "int64"), [1])


@exports(ops.ArrayRead)
def array_read(emit: Nodes, array: Value, position: Value) -> Value:
    place = emit.reshape(emit.cast(position, "int64"), emit.ints([]))
    return emit("Gather", array, place, axis=0)


@exports(ops.ArrayWrite)
def array_write(emit: Nodes, array: Value, position: Value, x: Value) -> Value:
    """Concatenate the elements before the position, x, and the elements after the position.

    An array without elements has 1 for each open size, which the first element decides.
    """
    if UNKNOWN in sizes_of(x):
        sizes = emit("Concat", emit.ints([1]), emit.shape(x), axis=0)
        array = emit("Expand", array, sizes)
    place = _place(emit, position)
    after = emit("Add", place, emit.ints([1]))
    before = emit.cut(array, [0], [0], place)
    rest = emit.cut(array, [0], after, [LAST])
    return emit("Concat", before, emit.unsqueeze(x, 0), rest, axis=0)


@exports(ops.ArrayToTensor)
def array_to_tensor(
    emit: Nodes, array: Value, axis: int, use_stack: bool, used: Sequence[bool]
) -> tuple[Value, Value | None]:
    rank = len(sizes_of(array)) - (not use_stack)
    at = normalize_axis(axis, rank)
    order = [*range(1, at + 1), 0, *range(at + 1, len(sizes_of(array)))]
    moved = emit.transpose(array, order)
    if not use_stack:
        after = [emit.size(array, i) for i in range(at + 2, len(sizes_of(array)))]
        moved = emit.reshape(moved, [*[0] * at, -1, *after])
    if not used[1]:
        return moved, None
    size = emit.ints([1]) if use_stack else emit.size(array, at + 1)
    return moved, emit.cast(emit("Expand", size, emit.size(array, 0)), "int32")


@exports(ops.RepeatInterleave)
def repeat_interleave(emit: Nodes, x: Value, repeats: Value, axis: int) -> Value:
    """Gather slice k at result position i, where k slices end at or before i."""
    at = normalize_axis(axis, len(sizes_of(x)))
    times = emit("Expand", emit.cast(repeats, "int64"), emit.size(x, at))
    ends = emit("CumSum", times, emit.number(0, "int64"))
    total = emit("ReduceSum", times, keepdims=0)
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    places = emit("Range", zero, total, one)
    ended = emit("LessOrEqual", emit.unsqueeze(ends, 0), emit.unsqueeze(places, 1))
    rows = emit("ReduceSum", emit.cast(ended, "int64"), emit.ints([1]), keepdims=0)
    return emit("Gather", x, rows, axis=at)


@exports(ops.Bincount)
def bincount(emit: Nodes, x: Value, weights: Value | None, minlength: int) -> Value:
    numbers = emit.cast(x, "int64")
    least = emit.ints([minlength - 1])
    largest = emit("ReduceMax", emit("Concat", numbers, least, axis=0), keepdims=0)
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    bins = emit("Range", zero, emit("Add", largest, one), one)
    own = emit("Equal", emit.unsqueeze(numbers, 1), emit.unsqueeze(bins, 0))
    if weights is None:
        return emit("ReduceSum", emit.cast(own, "int64"), emit.ints([0]), keepdims=0)
    shares = emit("Mul", emit.cast(own, dtype_of(weights)), emit.unsqueeze(weights, 1))
    return emit("ReduceSum", shares, emit.ints([0]), keepdims=0)
