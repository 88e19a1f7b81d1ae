"""Sorting of elements, and searches by value."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops import sort as ops
from graphopt.ir.dialect.types import normalize_axes, normalize_axis
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


def take_first(
    emit: Nodes, x: Value, count: Value, axis: int = -1, largest: bool = True
) -> tuple[Value, Value]:
    """Take the first elements in sorted order; among equals, ONNX takes the first, too."""
    attrs = {"axis": axis, "largest": int(largest), "sorted": 1}
    values, places = emit.all("TopK", x, count, dtypes=(None, "int64"), **attrs)
    return values, places


@exports(ops.Argsort)
def argsort(emit: Nodes, x: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    if not sizes_of(x):
        return x, emit.number(0, "int64")
    axis = normalize_axis(axis, len(sizes_of(x)))
    return take_first(emit, x, emit.size(x, axis), axis, descending)


@exports(ops.Topk, open=("k",))
def topk(emit: Nodes, x: Value, k: int | Value, axis: int, largest: bool) -> tuple[Value, Value]:
    count = emit.ints(k if isinstance(k, Value) else [k])
    return take_first(emit, x, count, normalize_axis(axis, len(sizes_of(x))), largest)


@exports(ops.Kthvalue)
def kthvalue(emit: Nodes, x: Value, k: int, axis: int, keepdim: bool) -> tuple[Value, Value]:
    at = normalize_axis(axis, len(sizes_of(x)))
    values, places = take_first(emit, x, emit.ints([k]), at, False)
    value, place = (emit.cut(part, [at], [k - 1], [k]) for part in (values, places))
    return (value, place) if keepdim else (emit.squeeze(value, at), emit.squeeze(place, at))


@exports(ops.Searchsorted)
def searchsorted(
    emit: Nodes, sequence: Value, values: Value, out_int32: bool, right: bool
) -> Value:
    """Count the sequence's elements below each value, or not above it with `right`."""
    if dtype_of(sequence) != dtype_of(values):
        sequence, values = emit.cast(sequence, "float64"), emit.cast(values, "float64")
    rank = len(sizes_of(sequence)) if sequence.shape is not None else 1
    rows = emit.unsqueeze(sequence, -2) if rank > 1 else sequence
    below = emit("LessOrEqual" if right else "Less", rows, emit.unsqueeze(values, -1))
    found = emit("ReduceSum", emit.cast(below, "int64"), emit.ints([-1]), keepdims=0)
    return emit.cast(found, "int32" if out_int32 else "int64")


@exports(ops.Mode)
def mode(emit: Nodes, x: Value, axis: int, keepdim: bool) -> tuple[Value, Value]:
    """Find the least of the most frequent elements, and its last position."""
    if not sizes_of(x):
        return x, emit.number(0, "int64")
    rank = len(sizes_of(x))
    at = normalize_axis(axis, rank)
    order = [*(i for i in range(rank) if i != at), at]
    rows, last = emit.transpose(x, order), emit.ints([-1])
    same = emit("Equal", emit.unsqueeze(rows, -1), emit.unsqueeze(rows, -2))
    counts = emit("ReduceSum", emit.cast(same, "int64"), last, keepdims=0)
    frequent = emit("Equal", counts, emit("ReduceMax", counts, last, keepdims=1))
    others = emit("ReduceMax", rows, last, keepdims=1)
    found = emit("ReduceMin", emit("Where", frequent, rows, others), last, keepdims=1)
    own = emit.cast(emit("Equal", rows, found), "int32")
    place = emit("ArgMax", own, axis=-1, keepdims=1, select_last_index=1)
    if not keepdim:
        return emit.squeeze(found, -1), emit.squeeze(place, -1)
    back = [order.index(i) for i in range(rank)]
    return emit.transpose(found, back), emit.transpose(place, back)


@exports(ops.Nanmedian, wide=True)
def nanmedian(emit: Nodes, x: Value, axis: tuple[int, ...], keepdim: bool, mode: str) -> Value:
    rank, sizes = len(sizes_of(x)), sizes_of(x)
    axes = normalize_axes(axis, rank) if axis else tuple(range(rank))
    if 0 in (sizes[i] for i in axes):
        raise NotInOnnx("the tensor has no elements")
    kept = [i for i in range(rank) if i not in axes]
    moved = emit.transpose(x, [*kept, *axes])
    rows = emit.reshape(moved, [*[0] * len(kept), -1]) if len(axes) != 1 else moved
    floating = dtype_of(x).is_floating
    count, two = emit("Shape", rows, start=-1), emit.number(2, "int64")
    if floating:
        is_number = emit("Not", emit("IsNaN", rows))
        # NaN comes last
        rows = emit("Where", is_number, rows, emit.number(math.inf, x))
        count = emit("ReduceSum", emit.cast(is_number, "int64"), emit.ints([-1]), keepdims=1)
    values, _ = take_first(emit, rows, emit("Shape", rows, start=-1), -1, False)
    low = emit("Max", emit("Sub", count, emit.number(1, "int64")), emit.number(0, "int64"))
    bounds = [emit("Div", low, two)]
    if mode == "avg":
        most = emit("Sub", emit("Shape", rows, start=-1), emit.ints([1]))
        bounds.append(emit("Min", emit("Div", count, two), most))
    front = emit("Concat", emit("Shape", rows, end=-1), emit.ints([1]), axis=0)
    picked = [
        emit("GatherElements", values, emit("Expand", at, front), axis=len(kept)) for at in bounds
    ]
    middle = picked[0]
    if mode == "avg":
        wide = "float64" if not floating else dtype_of(x)
        both = emit("Add", *(emit.cast(value, wide) for value in picked))
        middle = emit.cast(emit("Div", both, emit.number(2, wide)), dtype_of(x))
    if floating:
        some = emit("Greater", count, emit.number(0, "int64"))
        middle = emit("Where", some, middle, emit.number(math.nan, x))
    middle = emit.squeeze(middle, -1)
    return emit.unsqueeze(middle, *axes) if keepdim else middle


@exports(ops.Histogram)
def histogram(
    emit: Nodes,
    x: Value,
    weight: Value | None,
    bins: int,
    min: float,
    max: float,
    density: bool,
) -> Value:
    if 0 in sizes_of(x):
        raise NotInOnnx("the tensor has no elements")
    wide = "float64" if not dtype_of(x).is_floating else dtype_of(x)
    x = emit.cast(emit.reshape(x, [-1]), wide if wide in ("float32", "float64") else "float32")
    low, high = emit.number(min, x), emit.number(max, x)
    if min == max:
        low, high = emit("ReduceMin", x, keepdims=0), emit("ReduceMax", x, keepdims=0)
        one, same = emit.number(1, x), emit("Equal", low, high)
        ends = emit("Sub", low, one), emit("Add", high, one)
        low, high = emit("Where", same, ends[0], low), emit("Where", same, ends[1], high)
    width = emit("Sub", high, low)
    place = emit("Div", emit("Mul", emit("Sub", x, low), emit.number(bins, x)), width)
    place = emit("Clip", emit("Floor", place), emit.number(0, x), emit.number(bins - 1, x))
    outside = emit("Or", emit("Less", x, low), emit("Greater", x, high))
    place = emit("Where", outside, emit.number(-1, x), place)
    numbers = emit.constant(np.arange(bins).astype(dtype_of(x).numpy))
    own = emit("Equal", emit.unsqueeze(place, 1), numbers)
    if weight is None:
        found = emit("ReduceSum", emit.cast(own, "int64"), emit.ints([0]), keepdims=0)
    else:
        amounts = emit.cast(emit.reshape(weight, [-1, 1]), "float32")
        shares = emit("Mul", emit.cast(own, "float32"), amounts)
        found = emit("ReduceSum", shares, emit.ints([0]), keepdims=0)
    if not density:
        return found
    found = emit.cast(found, "float32")
    side = emit.cast(emit("Div", width, emit.number(bins, x)), "float32")
    return emit("Div", emit("Div", found, emit("ReduceSum", found, keepdims=0)), side)
