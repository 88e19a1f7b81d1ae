"""Concatenation, slicing, repetition and reordering of sequences."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence import rows as ops
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.sequence.layers import (
    check_rows,
    combine_rows,
    each,
    ends_of,
    owners_of,
    ranges,
    starts_of,
)
from graphopt.models.export.onnx.registry import exports


@exports(ops.SequenceConcat)
def sequence_concat(emit: Nodes, xs: tuple[Value, ...], lengths: tuple[Value, ...]) -> Value:
    """Place each row after all earlier sequences and its own rows of earlier tensors."""
    sizes = [emit.cast(own, "int64") for own in lengths]
    whole = sizes[0]
    for own in sizes[1:]:
        whole = emit("Add", whole, own)
    starts = starts_of(emit, whole)
    places: list[Value] = []
    for x, own in zip(xs, sizes, strict=True):
        owners = owners_of(emit, own, x)
        shift = emit("Sub", starts, starts_of(emit, own))
        places.append(emit("Add", emit.places(x), each(emit, shift, owners)))
        starts = emit("Add", starts, own)
    rows = xs[0] if len(xs) == 1 else emit("Concat", *xs, axis=0)
    to = places[0] if len(xs) == 1 else emit("Concat", *places, axis=0)
    return emit("ScatterND", rows, emit.unsqueeze(to, 1), rows)


@exports(ops.SequenceRepeat)
def sequence_expand(emit: Nodes, x: Value, lengths: Value, counts: Value) -> tuple[Value, Value]:
    times = emit.cast(counts, "int64")
    chosen = owners_of(emit, times, emit.range(emit("ReduceSum", times, keepdims=0)))
    sizes = each(emit, emit.cast(lengths, "int64"), chosen)
    rows, _ = ranges(emit, each(emit, starts_of(emit, lengths), chosen), sizes)
    return emit("Gather", x, rows, axis=0), emit.cast(sizes, dtype_of(lengths))


@exports(ops.SequenceReshape)
def sequence_reshape(emit: Nodes, x: Value, lengths: Value, new_dim: int) -> tuple[Value, Value]:
    width = emit.cast(emit.size(x, 1), dtype_of(lengths))
    numbers = emit("Mul", lengths, width)
    return (
        emit.reshape(x, [-1, new_dim]),
        emit("Div", numbers, emit.number(new_dim, lengths)),
    )


@exports(ops.SequenceScatter, wide=True)
def sequence_scatter(emit: Nodes, x: Value, index: Value, updates: Value, lengths: Value) -> Value:
    columns = emit.reshape(emit.cast(index, "int64"), [-1, 1])
    owners = emit.unsqueeze(owners_of(emit, lengths, index), 1)
    places = emit("Concat", owners, columns, axis=1)
    return emit("ScatterND", x, places, emit.reshape(updates, [-1]), reduction="add")


@exports(ops.SequenceEnumerate)
def sequence_enumerate(
    emit: Nodes, x: Value, lengths: Value, win_size: int, pad_value: int
) -> Value:
    check_rows(x)
    at = emit("Add", emit.unsqueeze(emit.places(x), 1), emit.ints(range(win_size)))
    ends = each(emit, ends_of(emit, lengths), owners_of(emit, lengths, x))
    inside = emit("Less", at, emit.unsqueeze(ends, 1))
    near = emit("Where", inside, at, emit.number(0, "int64"))
    found = emit("Gather", emit.reshape(x, [-1]), near, axis=0)
    return emit("Where", inside, found, emit.number(pad_value, x))


@exports(ops.SequenceSlice)
def sequence_slice(emit: Nodes, x: Value, lengths: Value, offset: Value, length: Value) -> Value:
    begin, sizes = (emit.ints(value) for value in (offset, length))
    rows, _ = ranges(emit, emit("Add", starts_of(emit, lengths), begin), sizes)
    return emit("Gather", x, rows, axis=0)


def _left(emit: Nodes, kept: Value, lengths: Value, x: Value) -> Value:
    """Count the kept rows of each sequence."""
    owners, one = owners_of(emit, lengths, x), emit.cast(kept, "int64")
    count = combine_rows(emit, one, owners, emit.size(lengths, 0), "add", 0)
    return emit.cast(count, dtype_of(lengths))


@exports(ops.SequenceErase)
def sequence_erase(
    emit: Nodes, x: Value, lengths: Value, tokens: tuple[int, ...]
) -> tuple[Value, Value]:
    check_rows(x)
    rows = emit.reshape(x, [-1, 1])
    same = emit("Equal", rows, emit.cast(emit.ints(tokens), dtype_of(x)))
    erased = emit("ReduceMax", emit.cast(same, "int32"), emit.ints([1]), keepdims=0)
    kept = emit("Equal", erased, emit.number(0, "int32"))
    return emit("Compress", x, kept, axis=0), _left(emit, kept, lengths, x)


@exports(ops.SequenceAlign)
def sequence_align(
    emit: Nodes, x: Value, lengths: Value, blank: int, merge_repeated: bool
) -> tuple[Value, Value]:
    """Remove blanks and repetitions; return one row of -1 if no token is left."""
    check_rows(x)
    tokens = emit.reshape(x, [-1])
    kept = emit("Not", emit("Equal", tokens, emit.number(blank, x)))
    if merge_repeated:
        first = each(emit, starts_of(emit, lengths), owners_of(emit, lengths, x))
        is_first = emit("Equal", emit.places(x), first)
        before = emit("Concat", emit.cut(tokens, [0], [0], [1]), tokens, axis=0)
        before = emit.cut(before, [0], [0], [-1])
        repeated = emit("And", emit("Equal", tokens, before), emit("Not", is_first))
        kept = emit("And", kept, emit("Not", repeated))
    some = emit("ReduceMax", emit.cast(kept, "int32"), emit.ints([0]))
    none = emit("Equal", some, emit.number(0, "int32"))
    nothing = emit.cast(emit.ints([-1]), dtype_of(x))
    longer = emit("Concat", tokens, nothing, axis=0)
    found = emit("Compress", longer, emit("Concat", kept, none, axis=0), axis=0)
    rest = [1] * (len(sizes_of(x)) - 1)
    return emit.reshape(found, [-1, *rest]), _left(emit, kept, lengths, x)


@exports(ops.SequenceReorder)
def sequence_reorder(emit: Nodes, x: Value, lengths: Value, order: Value) -> Value:
    starts = each(emit, starts_of(emit, lengths), order)
    rows, _ = ranges(emit, starts, each(emit, emit.cast(lengths, "int64"), order))
    return emit("Gather", x, rows, axis=0)
