"""Elements by index along axes.

Where Paddle raises for an index out of range, ONNX counts from the end or fails.
"""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import index as ops
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.linalg.matrices import place_on_diagonal
from graphopt.models.export.onnx.registry import exports
from graphopt.models.export.onnx.simplify import array_of, made_by


@exports(ops.Embedding)
def embedding(emit: Nodes, x: Value, weight: Value, padding_idx: int) -> Value:
    rows = emit("Gather", weight, _as_counted(emit, x, weight, 0), axis=0)
    if padding_idx == -1:  # Paddle's value for no padding
        return rows
    padding = emit("Equal", x, emit.number(padding_idx, x))
    is_padding = emit.unsqueeze(padding, len(sizes_of(x)))
    return emit("Where", is_padding, emit.number(0, weight), rows)


@exports(ops.OneHot, open=("depth",))
def one_hot(emit: Nodes, x: Value, depth: int | Value, dtype: DType) -> Value:
    """Compare with the class indices: ONNX's OneHot would count negative indices from the end."""
    x = emit.cast(x, "int64")
    if isinstance(depth, Value):
        end = emit.reshape(emit.cast(depth, dtype_of(x)), emit.ints([]))
        numbers = emit("Range", emit.number(0, x), end, emit.number(1, x))
    else:
        numbers = emit.constant(np.arange(depth))
    return emit.cast(emit("Equal", emit.unsqueeze(x, len(sizes_of(x))), numbers), dtype)


@exports(ops.Gather, open=("axis",))
def gather(emit: Nodes, x: Value, index: Value, axis: int | Value) -> Value:
    if isinstance(axis, Value):
        raise NotInOnnx("'axis' is known only when the model runs")
    rows = _as_counted(emit, index, x, axis)
    rows = emit.reshape(rows, [-1]) if len(sizes_of(index)) > 1 else rows
    return emit("Gather", x, rows, axis=axis)


def _as_counted(emit: Nodes, index: Value, x: Value, axis: int) -> Value:
    """Strip the normalization of negative indices (add the size), which ONNX does itself."""
    node = index.producer()
    if node is not None and node.op_type == "Reshape":
        given, shape = node.inputs[:2]
        assert given is not None
        before = _as_counted(emit, given, x, axis)
        return index if before is given else emit("Reshape", before, shape)
    if node is None or node.op_type != "Where":
        return index
    below, moved, own = node.inputs
    is_below, add = made_by(below, "Less"), made_by(moved, "Add")
    if own is None or is_below is None or add is None or add.inputs[0] is not own:
        return index
    zero = array_of(is_below.inputs[1])
    fits = is_below.inputs[0] is own and zero is not None and not zero.any()
    return own if fits and _is_size(add.inputs[1], x, axis) else index


def _is_size(value: Value | None, x: Value, axis: int) -> bool:
    """True if the value is the size of x along an axis, constant or computed."""
    cast = made_by(value, "Cast")
    value = value if cast is None else cast.inputs[0]
    known = array_of(value)
    at = normalize_axis(axis, len(sizes_of(x)))
    if known is not None:
        return known.size == 1 and int(known.reshape(())) == sizes_of(x)[at]
    place = made_by(value, "Gather")
    if place is None or (shape := made_by(place.inputs[0], "Shape")) is None:
        return False
    number = array_of(place.inputs[1])
    return (
        shape.inputs[0] is x
        and not shape.attributes
        and number is not None
        and number.tolist() in (at, [at])
    )


@exports(ops.Multiplex)
def multiplex(emit: Nodes, inputs: tuple[Value, ...], index: Value) -> Value:
    stacked = emit("Concat", *(emit.unsqueeze(value, 1) for value in inputs), axis=1)
    chosen = emit.reshape(emit.cast(index, "int64"), [-1, 1])
    return emit("GatherND", stacked, chosen, batch_dims=1)


@exports(ops.IndexAdd)
def index_add(emit: Nodes, x: Value, index: Value, add_value: Value, axis: int) -> Value:
    rank = len(sizes_of(x))
    at = normalize_axis(axis, rank)
    order = [at, *(i for i in range(rank) if i != at)]
    rows, updates = emit.transpose(x, order), emit.transpose(add_value, order)
    sizes = [emit.size(index, 0), *(emit.size(x, i) for i in order[1:])]
    updates = emit("Expand", updates, emit.join_sizes(sizes))
    places = emit.unsqueeze(emit.cast(index, "int64"), 1)
    out = emit("ScatterND", rows, places, updates, reduction="add")
    return emit.transpose(out, [order.index(i) for i in range(rank)])


@exports(ops.IndexPut)
def index_put(
    emit: Nodes, x: Value, indices: tuple[Value, ...], value: Value, accumulate: bool
) -> Value:
    places = [emit.cast(index, "int64") for index in indices]
    shapes = [sizes_of(index) for index in indices]
    picked = emit.shape(places[0])
    if len(places) > 1:
        if any(UNKNOWN in shape for shape in shapes):
            raise NotInOnnx("the sizes of the index tensors are open")
        picked = emit.ints(np.broadcast_shapes(*shapes))
        places = [emit("Expand", index, picked) for index in places]
    columns = [emit.unsqueeze(index, -1) for index in places]
    rows = columns[0] if len(columns) == 1 else emit("Concat", *columns, axis=-1)
    if len(sizes_of(x)) > len(indices):
        picked = emit("Concat", picked, emit.shape(x, len(indices)), axis=0)
    updates = emit("Expand", value, picked)
    reduction = "add" if accumulate else "none"
    return emit("ScatterND", x, rows, updates, reduction=reduction)


@exports(ops.WriteRows)
def write_rows(emit: Nodes, x: Value, rows: Value, at: Value, axis: int) -> Value:
    """Concatenate the part of x before the rows, the rows, and the part after them."""
    along = normalize_axis(axis, len(sizes_of(x)))
    first = emit.reshape(emit.cast(at, "int64"), [1])
    after, axes = emit("Add", first, emit.size(rows, along)), emit.ints([along])
    front = emit("Slice", x, emit.ints([0]), first, axes)
    back = emit("Slice", x, after, emit.size(x, along), axes)
    return emit("Concat", front, rows, back, axis=along)


@exports(ops.ShardIndex)
def shard_index(
    emit: Nodes, input: Value, index_num: int, nshards: int, shard_id: int, ignore_value: int
) -> Value:
    size = emit.number(-(-index_num // nshards), input)
    own = emit("Mod", input, size)
    shard = emit("Div", emit("Sub", input, own), size)
    mine = emit("Equal", shard, emit.number(shard_id, input))
    return emit("Where", mine, own, emit.number(ignore_value, input))


@exports(ops.DiagEmbed)
def diag_embed(emit: Nodes, input: Value, offset: int, dim1: int, dim2: int) -> Value:
    rank = len(sizes_of(input)) + 1
    first, second = ops.matrix_axes(rank, dim1, dim2)
    matrices = place_on_diagonal(emit, input, offset, emit.number(0, input))
    order = list(range(rank - 2))
    for axis, last in sorted(((first, rank - 2), (second, rank - 1))):
        order.insert(axis, last)
    return emit.transpose(matrices, order)
