"""Concatenated sequences: each row has the number of its sequence."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence import layers as ops
from graphopt.models.export.onnx.nodes import (
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.registry import exports


def ends_of(emit: Nodes, lengths: Value) -> Value:
    """Compute the first row after each sequence."""
    return emit("CumSum", emit.cast(lengths, "int64"), emit.number(0, "int64"))


def starts_of(emit: Nodes, lengths: Value) -> Value:
    """Compute the first row of each sequence."""
    zero = emit.number(0, "int64")
    return emit("CumSum", emit.cast(lengths, "int64"), zero, exclusive=1)


def owners_of(emit: Nodes, lengths: Value, rows: Value) -> Value:
    """Compute the sequence index of each row: the number of sequences that end before it."""
    ends = emit.unsqueeze(ends_of(emit, lengths), 0)
    ended = emit("LessOrEqual", ends, emit.unsqueeze(emit.places(rows), 1))
    return emit("ReduceSum", emit.cast(ended, "int64"), emit.ints([1]), keepdims=0)


def each(emit: Nodes, values: Value, owners: Value) -> Value:
    """Gather for each row the value of its sequence."""
    return emit("Gather", values, owners, axis=0)


def check_rows(x: Value) -> None:
    """Raise NotInOnnx for a tensor without rows, which ONNX Runtime cannot handle."""
    if x.shape is not None and sizes_of(x)[0] == 0:
        raise NotInOnnx("the sequences have no rows")


def combine_rows(
    emit: Nodes, rows: Value, owners: Value, count: Value, how: str, start: float
) -> Value:
    """Reduce the rows of each of `count` sequences by `add`, `max` etc., from a start value."""
    sizes = emit("Concat", count, emit("Shape", rows, start=1), axis=0)
    first = emit.zeros(sizes, rows, start)
    return emit("ScatterND", first, emit.unsqueeze(owners, 1), rows, reduction=how)


def _column(emit: Nodes, values: Value, rank: int) -> Value:
    """Reshape a vector so that it broadcasts to rows of this rank."""
    return emit.unsqueeze(values, *range(1, rank))


@exports(ops.SequencePool, wide=True)
def sequence_pool(emit: Nodes, x: Value, lengths: Value, pooltype: str, pad_value: float) -> Value:
    check_rows(x)
    rank, count = len(sizes_of(x)), emit.size(lengths, 0)
    if pooltype in ("FIRST", "LAST"):
        last = emit("Sub", ends_of(emit, lengths), emit.number(1, "int64"))
        at = last if pooltype == "LAST" else starts_of(emit, lengths)
        most = emit("Sub", emit.size(x, 0), emit.ints([1]))
        at = emit("Max", emit("Min", at, most), emit.number(0, "int64"))
        out = emit("Gather", x, at, axis=0)
    elif pooltype == "MAX":
        lowest = float("-inf")
        out = combine_rows(emit, x, owners_of(emit, lengths, x), count, "max", lowest)
    else:
        out = combine_rows(emit, x, owners_of(emit, lengths, x), count, "add", 0)
        if pooltype != "SUM":
            rows = emit("Max", emit.cast(lengths, dtype_of(x)), emit.number(1, x))
            rows = emit("Sqrt", rows) if pooltype == "SQRT" else rows
            out = emit("Div", out, _column(emit, rows, rank))
    filled = emit("Greater", lengths, emit.number(0, lengths))
    return emit("Where", _column(emit, filled, rank), out, emit.number(pad_value, x))


def _around(
    emit: Nodes, x: Value, lengths: Value, start: int, count: int, padding: Value | None = None
) -> Value:
    """Gather for each row [d] the `count` rows [count, d] from offset `start` on.

    Rows outside of the sequence are 0, or rows of `padding`.
    """
    check_rows(x)
    zero, owners = emit.number(0, "int64"), owners_of(emit, lengths, x)
    steps = emit.ints(range(start, start + count))
    at = emit("Add", emit.unsqueeze(emit.places(x), 1), steps)
    first = emit.unsqueeze(each(emit, starts_of(emit, lengths), owners), 1)
    size = emit.unsqueeze(each(emit, emit.cast(lengths, "int64"), owners), 1)
    place = emit("Sub", at, first)
    before, inside = emit("Less", place, zero), emit("Less", place, size)
    inside = emit("And", emit("Not", before), inside)
    near = emit("Gather", x, emit("Where", inside, at, zero), axis=0)
    outside = zero if padding is None else emit("Where", before, place, emit("Sub", place, size))
    if padding is None:
        outside = emit.number(0, x)
    else:
        row = emit("Add", outside, emit.number(max(0, -start), "int64"))
        last = emit("Sub", emit.size(padding, 0), emit.ints([1]))
        row = emit("Max", emit("Min", row, last), zero)
        outside = emit("Gather", padding, row, axis=0)
    return emit("Where", emit.unsqueeze(inside, 2), near, outside)


@exports(ops.SequenceConv, wide=True)
def sequence_conv(
    emit: Nodes,
    x: Value,
    lengths: Value,
    filter: Value,
    padding: Value | None,
    context_length: int,
    context_start: int,
) -> Value:
    around = _around(emit, x, lengths, context_start, context_length, padding)
    return emit("MatMul", emit.reshape(around, [0, -1]), filter)


@exports(ops.SequenceRowConv, wide=True)
def sequence_row_conv(emit: Nodes, x: Value, lengths: Value, filter: Value) -> Value:
    steps = sizes_of(filter)[0]
    if steps < 0:
        raise NotInOnnx("the number of look-ahead steps is open")
    around = _around(emit, x, lengths, 0, steps)
    return emit("ReduceSum", emit("Mul", around, filter), emit.ints([1]), keepdims=0)


@exports(ops.SequenceSoftmax, wide=True)
def sequence_softmax(emit: Nodes, x: Value, lengths: Value) -> Value:
    check_rows(x)
    flat, owners = emit.reshape(x, [-1]), owners_of(emit, lengths, x)
    count = emit.size(lengths, 0)
    top = combine_rows(emit, flat, owners, count, "max", float("-inf"))
    powers = emit("Exp", emit("Sub", flat, each(emit, top, owners)))
    total = combine_rows(emit, powers, owners, count, "add", 0)
    return emit.reshape(emit("Div", powers, each(emit, total, owners)), emit.shape(x))


@exports(ops.SequenceReverse)
def sequence_reverse(emit: Nodes, x: Value, lengths: Value) -> Value:
    owners = owners_of(emit, lengths, x)
    both = emit("Add", starts_of(emit, lengths), ends_of(emit, lengths))
    last = emit("Sub", each(emit, both, owners), emit.number(1, "int64"))
    return emit("Gather", x, emit("Sub", last, emit.places(x)), axis=0)


@exports(ops.SequenceExpand)
def sequence_expand_as(emit: Nodes, x: Value, y: Value, lengths: Value) -> Value:
    return emit("Gather", x, owners_of(emit, lengths, y), axis=0)


def inside_of(emit: Nodes, lengths: Value, steps: Value) -> Value:
    """Mark the places [sequences, steps] that have a row."""
    return emit("Less", emit.unsqueeze(steps, 0), emit.unsqueeze(lengths, 1))


@exports(ops.SequencePad)
def sequence_pad(
    emit: Nodes,
    x: Value,
    lengths: Value,
    pad_value: Value,
    steps: Value | None,
    padded_length: int,
) -> Value:
    check_rows(x)
    sizes = emit.cast(lengths, "int64")
    if steps is not None:
        numbers = emit.places(steps)
    elif padded_length > 0:
        numbers = emit.ints(range(padded_length))
    else:
        numbers = emit.range(emit("ReduceMax", sizes, keepdims=0))
    inside = inside_of(emit, sizes, numbers)
    rows = emit("Add", emit.unsqueeze(starts_of(emit, lengths), 1), numbers)
    rows = emit("Where", inside, rows, emit.number(0, "int64"))
    rest = len(sizes_of(x)) - 1
    inside = emit.unsqueeze(inside, *range(2, 2 + rest))
    fill = pad_value if sizes_of(pad_value) else emit.reshape(pad_value, [1])
    if sizes_of(fill) == (1,) or rest == 0:
        fill = emit.reshape(fill, emit.ints([]))
    return emit("Where", inside, emit("Gather", x, rows, axis=0), fill)


@exports(ops.SequenceUnpad)
def sequence_unpad(emit: Nodes, x: Value, lengths: Value, rows: Value | None) -> Value:
    sizes, rest = emit.cast(lengths, "int64"), emit.shape(x, 2)
    flat = emit.reshape(x, emit("Concat", emit.ints([-1]), rest, axis=0))
    if rows is None:
        inside = inside_of(emit, emit.reshape(sizes, [-1]), emit.places(x, 1))
        return emit("Compress", flat, emit.reshape(inside, [-1]), axis=0)
    owners, steps = owners_of(emit, sizes, rows), emit.size(x, 1)
    step = emit("Sub", emit.places(rows), each(emit, starts_of(emit, sizes), owners))
    last = emit("Sub", steps, emit.ints([1]))
    place = emit("Add", emit("Mul", owners, steps), emit("Min", step, last))
    return emit("Gather", flat, place, axis=0)


def ranges(emit: Nodes, starts: Value, sizes: Value) -> tuple[Value, Value]:
    """Concatenate ranges of rows; return the rows and the range index of each."""
    total = emit("ReduceSum", sizes, keepdims=0)
    places = emit.range(total)
    owners = owners_of(emit, sizes, places)
    shifts = emit("Sub", starts, starts_of(emit, sizes))
    return emit("Add", places, each(emit, shifts, owners)), owners
