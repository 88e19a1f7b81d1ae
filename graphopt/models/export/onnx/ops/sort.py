"""Putting elements in order, and finding them by size."""

from __future__ import annotations

from graphopt.ir.dialect.ops import sort as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


def _first(emit: Nodes, x: Value, count: Value, axis: int, largest: bool) -> tuple[Value, Value]:
    """The first elements in order; of equal ones, ONNX takes the first, too."""
    attrs = {"axis": axis, "largest": int(largest), "sorted": 1}
    values, places = emit.all("TopK", x, count, dtypes=(None, "int64"), **attrs)
    return values, places


@exports(ops.Argsort)
def argsort(emit: Nodes, x: Value, axis: int, descending: bool) -> tuple[Value, Value]:
    if not sizes_of(x):
        return x, emit.number(0, "int64")
    axis = normalize_axis(axis, len(sizes_of(x)))
    return _first(emit, x, emit.size(x, axis), axis, descending)


@exports(ops.Topk, open=("k",))
def topk(emit: Nodes, x: Value, k: int | Value, axis: int, largest: bool) -> tuple[Value, Value]:
    count = emit.ints(k if isinstance(k, Value) else [k])
    return _first(emit, x, count, normalize_axis(axis, len(sizes_of(x))), largest)


@exports(ops.Kthvalue)
def kthvalue(emit: Nodes, x: Value, k: int, axis: int, keepdim: bool) -> tuple[Value, Value]:
    at = normalize_axis(axis, len(sizes_of(x)))
    values, places = _first(emit, x, emit.ints([k]), at, False)
    value, place = (emit.cut(part, [at], [k - 1], [k]) for part in (values, places))
    return (value, place) if keepdim else (emit.squeeze(value, at), emit.squeeze(place, at))


@exports(ops.Searchsorted)
def searchsorted(
    emit: Nodes, sequence: Value, values: Value, out_int32: bool, right: bool
) -> Value:
    """The number of elements of the sequence that are below each value."""
    if dtype_of(sequence) != dtype_of(values):
        sequence, values = emit.cast(sequence, "float64"), emit.cast(values, "float64")
    rank = len(sizes_of(sequence)) if sequence.shape is not None else 1
    rows = emit.unsqueeze(sequence, -2) if rank > 1 else sequence
    below = emit("LessOrEqual" if right else "Less", rows, emit.unsqueeze(values, -1))
    found = emit("ReduceSum", emit.cast(below, "int64"), emit.ints([-1]), keepdims=0)
    return emit.cast(found, "int32" if out_int32 else "int64")
