"""Reductions over axes, and cumulative results along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import reduce as ops
from graphopt.ir.dialect.types import UNKNOWN, Tensor, element_count, normalize_axis, shape_of
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.loops import Values, scan
from graphopt.models.export.onnx.nodes import (
    Ints,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.registry import exports

IntTuple = tuple[int, ...]


def reduce_axes(emit: Nodes, op: str, x: Value, axis: Ints = (), keepdim: bool = False) -> Value:
    """Reduce x over axes, or over all axes if there are none."""
    axes = None if not isinstance(axis, Value) and not axis else emit.ints(axis)
    return emit(op, x, axes, keepdims=int(keepdim))


def _reduction(op_class: type[PdOp], name: str, *, wide: bool = False) -> None:
    @exports(op_class, wide=wide, open=("axis",))
    def rule(emit: Nodes, x: Value, axis: Ints, keepdim: bool) -> Value:
        if dtype_of(x) == "bool":
            return emit.cast(reduce_axes(emit, name, emit.cast(x, "int32"), axis, keepdim), "bool")
        return reduce_axes(emit, name, x, axis, keepdim)


_reduction(ops.Mean, "ReduceMean", wide=True)
_reduction(ops.Max, "ReduceMax")
_reduction(ops.Min, "ReduceMin")
_reduction(ops.Amax, "ReduceMax")
_reduction(ops.Amin, "ReduceMin")
_reduction(ops.Prod, "ReduceProd", wide=True)
_reduction(ops.Logsumexp, "ReduceLogSumExp", wide=True)


@exports(ops.Sum, wide=True, open=("axis",))
def sum_(
    emit: Nodes,
    x: Value,
    axis: Ints,
    keepdim: bool,
    dtype: DType | None,
    types: Sequence[Tensor],
) -> Value:
    total = ops.sum_dtype(dtype_of(x), dtype)
    if total in ("float16", "bfloat16"):  # they accumulate in float32, and round once
        total = DType("float32")
    return reduce_axes(emit, "ReduceSum", emit.cast(x, total), axis, keepdim)


def _of_flags(op_class: type[PdOp], name: str) -> None:
    @exports(op_class, open=("axis",))
    def rule(emit: Nodes, x: Value, axis: Ints, keepdim: bool) -> Value:
        flags = emit.cast(emit.cast(x, "bool"), "int32")
        return emit.cast(reduce_axes(emit, name, flags, axis, keepdim), "bool")


_of_flags(ops.All, "ReduceMin")
_of_flags(ops.Any, "ReduceSum")


@exports(ops.PNorm, wide=True)
def p_norm(emit: Nodes, x: Value, porder: float, axis: IntTuple, keepdim: bool) -> Value:
    if porder in (1, 2):
        return reduce_axes(emit, "ReduceL1" if porder == 1 else "ReduceL2", x, axis, keepdim)
    sizes = emit("Abs", x)
    if math.isinf(porder):
        name = "ReduceMax" if porder > 0 else "ReduceMin"
        return reduce_axes(emit, name, sizes, axis, keepdim)
    if porder == 0:
        counts = emit.cast(emit.cast(x, "bool"), dtype_of(x))
        return reduce_axes(emit, "ReduceSum", counts, axis, keepdim)
    powers = emit("Pow", sizes, emit.number(porder, x))
    total = reduce_axes(emit, "ReduceSum", powers, axis, keepdim)
    return emit("Pow", total, emit.number(1 / porder, x))


@exports(ops.SquaredL2Norm, wide=True)
def squared_l2_norm(emit: Nodes, x: Value) -> Value:
    return emit.reshape(reduce_axes(emit, "ReduceSumSquare", x), [1])


@exports(ops.ClipByNorm, wide=True)
def clip_by_norm(emit: Nodes, x: Value, max_norm: float) -> Value:
    norm, most = reduce_axes(emit, "ReduceL2", x), emit.number(max_norm, x)
    return (
        emit("Mul", x, emit("Div", most, emit("Max", norm, most)))
        if max_norm
        else emit("Mul", x, emit.number(0, x))
    )


@exports(ops.ReduceAs, wide=True)
def reduce_as(emit: Nodes, x: Value, target: Value) -> Value:
    sizes, own = sizes_of(target), sizes_of(x)
    outer = len(own) - len(sizes)
    if UNKNOWN in sizes:
        raise NotInOnnx("the choice of the summed axes depends on an open size")
    inner = [outer + at for at, size in enumerate(sizes) if size == 1]
    axes = [*range(outer), *inner]
    if not axes:
        return x
    return emit.reshape(reduce_axes(emit, "ReduceSum", x, axes), emit.ints(sizes))


@exports(ops.Numel)
def numel(emit: Nodes, x: Value) -> Value:
    count = element_count(sizes_of(x))
    return emit("Size", x) if count == UNKNOWN else emit.number(count, "int64")


def _index_of_first(op_class: type[PdOp], name: str) -> None:
    @exports(op_class)
    def rule(
        emit: Nodes,
        x: Value,
        axis: int,
        keepdim: bool,
        flatten: bool,
        dtype: DType,
        types: Sequence[Tensor],
    ) -> Value:
        if flatten:
            found = emit(name, emit.reshape(x, [-1]), axis=0, keepdims=0)
            found = emit.reshape(found, emit.ints(shape_of(types[0])))
        else:
            found = emit(
                name, x, axis=normalize_axis(axis, len(sizes_of(x))), keepdims=int(keepdim)
            )
        return emit.cast(found, dtype)


_index_of_first(ops.Argmax, "ArgMax")
_index_of_first(ops.Argmin, "ArgMin")


@exports(ops.Cumsum, wide=True)
def cumsum(
    emit: Nodes, x: Value, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Value:
    at = 0 if flatten else normalize_axis(axis, len(sizes_of(x)))
    x = emit.reshape(x, [-1]) if flatten else x
    place = emit.number(at, "int64")
    return emit("CumSum", x, place, exclusive=int(exclusive), reverse=int(reverse))


def along(emit: Nodes, x: Value, axis: int) -> tuple[Value, Callable[[Value], Value], Value]:
    """Move an axis first; return x, the function that moves it back, and the other sizes."""
    rank = len(sizes_of(x))
    at = normalize_axis(axis, rank)
    order = [at, *(i for i in range(rank) if i != at)]
    rest = emit.join_sizes([emit.size(x, i) for i in order[1:]]) if rank > 1 else emit.ints([])

    def back(found: Value) -> Value:
        return emit.transpose(found, [order.index(i) for i in range(rank)])

    return emit.transpose(x, order), back, rest


@exports(ops.Cumprod, wide=True)
def cumprod(emit: Nodes, x: Value, axis: int, exclusive: bool, reverse: bool) -> Value:
    """Scan with multiplication, since negative numbers have no logarithms."""
    rows, back, rest = along(emit, x, axis)

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        following = inner("Mul", states[0], items[0])
        return [following], [states[0] if exclusive else following]

    start = emit.zeros(rest, x, 1)
    _, (found,) = scan(emit, [start], [rows], step, reverse)
    return back(found)


def log_added(emit: Nodes, x: Value, y: Value) -> Value:
    """Compute log(exp(x) + exp(y))."""
    high, one = emit("Max", x, y), emit.number(1, x)
    away = emit("Sub", emit("Min", x, y), high)
    more = emit("Log", emit("Add", emit("Exp", away), one))
    nothing = emit("Equal", high, emit.number(-math.inf, x))
    return emit("Where", nothing, high, emit("Add", high, more))


@exports(ops.Logcumsumexp, wide=True)
def logcumsumexp(
    emit: Nodes, x: Value, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Value:
    if not sizes_of(x) and not flatten:
        return emit.number(-math.inf, x) if exclusive else x
    if flatten:
        x = emit.reshape(x, [-1])
        x.shape = ir.Shape([None])
    rows, back, rest = along(emit, x, 0 if flatten else axis)

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        following = log_added(inner, states[0], items[0])
        return [following], [states[0] if exclusive else following]

    start = emit.zeros(rest, x, -math.inf)
    _, (found,) = scan(emit, [start], [rows], step, reverse)
    return back(found)


def _running_extreme(op_class: type[PdOp], beats: str, lowest: str) -> None:
    @exports(op_class)
    def rule(emit: Nodes, x: Value, axis: int, dtype: DType) -> tuple[Value, Value]:
        """Scan for the running extreme; the last of equal elements counts, and NaN wins."""
        if not sizes_of(x):
            return x, emit.number(0, dtype)
        rows, back, rest = along(emit, x, axis)

        def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
            (best, place), (x, at) = states, items
            wins = inner(beats, x, best)
            if dtype_of(x).is_floating:
                known = inner("And", wins, inner("Not", inner("IsNaN", best)))
                wins = inner("Or", known, inner("IsNaN", x))
            both = inner("Where", wins, x, best), inner("Where", wins, at, place)
            return both, both

        own, numbers = dtype_of(x).numpy, emit.cast(emit.places(rows), dtype)
        if dtype_of(x).is_floating:
            worst = -math.inf if lowest == "min" else math.inf
        else:
            worst = getattr(np.iinfo(own), lowest)
        starts = emit.zeros(rest, x, worst), emit.zeros(rest, numbers)
        _, (values, places) = scan(emit, starts, [rows, numbers], step)
        return back(values), back(places)


_running_extreme(ops.Cummax, "GreaterOrEqual", "min")
_running_extreme(ops.Cummin, "LessOrEqual", "max")
