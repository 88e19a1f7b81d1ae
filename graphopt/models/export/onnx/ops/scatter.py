"""Reads and writes of elements at given positions."""

from __future__ import annotations

from graphopt.ir.dialect.ops import scatter as ops
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.GatherNd)
def gather_nd(emit: Nodes, x: Value, index: Value) -> Value:
    _check_depth(index)
    return emit("GatherND", x, emit.cast(index, "int64"))


def _check_depth(index: Value) -> None:
    if sizes_of(index)[-1] == 0:
        raise NotInOnnx("the last axis of the index has size 0")


@exports(ops.ScatterNdAdd, wide=True)
def scatter_nd_add(emit: Nodes, x: Value, index: Value, updates: Value) -> Value:
    _check_depth(index)
    return emit("ScatterND", x, emit.cast(index, "int64"), updates, reduction="add")


@exports(ops.Scatter)
def scatter(emit: Nodes, x: Value, index: Value, updates: Value, overwrite: bool) -> Value:
    rows = emit.reshape(emit.cast(index, "int64"), [-1, 1])
    if overwrite:
        return emit("ScatterND", x, rows, updates)
    empty = emit("Expand", emit.number(0, x), emit.shape(updates))
    cleared = emit("ScatterND", x, rows, empty)
    return emit("ScatterND", cleared, rows, updates, reduction="add")


def _along_axis(emit: Nodes, x: Value, index: Value, axis: int) -> tuple[Value, Value]:
    """Expand x and the index to equal sizes of all axes but this one, as ONNX needs."""
    own, other = sizes_of(x), sizes_of(index)
    at = normalize_axis(axis, len(own))
    rest = [i for i in range(len(own)) if i != at]
    if all(own[i] == other[i] != UNKNOWN for i in rest) or not rest:
        return x, index

    def like(value: Value) -> Value:
        return emit.join_sizes([1 if i == at else emit.size(value, i) for i in range(len(own))])

    return emit("Expand", x, like(index)), emit("Expand", index, like(x))


@exports(ops.TakeAlongAxis)
def take_along_axis(emit: Nodes, x: Value, index: Value, axis: int) -> Value:
    at = normalize_axis(axis, len(sizes_of(x)))
    return emit("GatherElements", *_along_axis(emit, x, index, axis), axis=at)


REDUCTIONS = {
    "assign": "none",
    "add": "add",
    "mul": "mul",
    "multiply": "mul",
    "amin": "min",
    "amax": "max",
}


@exports(ops.PutAlongAxis)
def put_along_axis(
    emit: Nodes,
    x: Value,
    index: Value,
    value: Value,
    axis: int,
    reduce: str,
    include_self: bool,
) -> Value:
    own, other = sizes_of(x), sizes_of(index)
    at = normalize_axis(axis, len(own))
    if reduce not in REDUCTIONS or not (include_self or reduce == "assign"):
        raise NotInOnnx(f"ONNX has no reduction {reduce!r} with include_self={include_self}")
    if any(a < b for i, (a, b) in enumerate(zip(own, other, strict=True)) if i != at):
        raise NotInOnnx("the index is larger than x")
    sizes = [emit.size(index if i == at else x, i) for i in range(len(own))]
    shape = emit.join_sizes(sizes)
    places, updates = emit("Expand", index, shape), emit("Expand", value, shape)
    reduction = REDUCTIONS[reduce]
    return emit("ScatterElements", x, places, updates, axis=at, reduction=reduction)


@exports(ops.IndexSample)
def index_sample(emit: Nodes, x: Value, index: Value) -> Value:
    return emit("GatherElements", x, index, axis=1)
