"""Repetition, reversal, shifts, padding and overwriting of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops import rearrange as ops
from graphopt.ir.dialect.types import UNKNOWN, Tensor, normalize_axes, normalize_axis, rank_of
from graphopt.models.export.onnx.nodes import (
    FIRST,
    LAST,
    Ints,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.registry import exports

IntTuple = tuple[int, ...]


@exports(ops.Tile, open=("repeat_times",))
def tile(emit: Nodes, x: Value, repeat_times: Ints, types: Sequence[Tensor]) -> Value:
    rank = len(sizes_of(x))
    if isinstance(repeat_times, Value):
        x, times = emit.unsqueeze(x, *range(rank_of(types[0]) - rank)), emit.ints(repeat_times)
        given = sizes_of(repeat_times)
        if UNKNOWN in given:
            raise NotInOnnx("the number of repeated axes is known only when the model runs")
        missing = rank_of(types[0]) - (given or (1,))[0]
        ones = emit.ints([1] * missing)
        return emit("Tile", x, emit("Concat", ones, times, axis=0) if missing else times)
    x = emit.unsqueeze(x, *range(len(repeat_times) - rank))
    times = (1,) * (rank - len(repeat_times)) + tuple(repeat_times)
    return emit("Tile", x, emit.ints(times)) if times else x


@exports(ops.RepeatInterleave)
def repeat_interleave(emit: Nodes, x: Value, repeats: int, axis: int) -> Value:
    sizes = sizes_of(x)
    at = normalize_axis(axis, len(sizes))
    if sizes[at] != UNKNOWN:
        rows = np.repeat(np.arange(sizes[at]), repeats)
        return emit("Gather", x, emit.constant(rows), axis=at)
    times = [1] * (len(sizes) + 1)
    times[at + 1] = repeats
    repeated = emit("Tile", emit.unsqueeze(x, at + 1), emit.ints(times))
    after = [emit.size(x, i) for i in range(at + 1, len(sizes))]
    return emit.reshape(repeated, [*[0] * at, -1, *after])


@exports(ops.Flip)
def flip(emit: Nodes, x: Value, axis: IntTuple) -> Value:
    axes = normalize_axes(axis, len(sizes_of(x)))
    count = len(axes)
    return emit.cut(x, axes, [-1] * count, [FIRST] * count, [-1] * count) if axes else x


@exports(ops.Roll)
def roll(emit: Nodes, x: Value, shifts: IntTuple, axis: IntTuple) -> Value:
    sizes = sizes_of(x)
    if axis:
        for shift, each in zip(shifts, axis, strict=True):
            at = normalize_axis(each, len(sizes))
            x = _roll(emit, x, shift, at, sizes[at], emit.size(x, at))
        return x
    if UNKNOWN in sizes:
        raise NotInOnnx("the operator rolls the flattened tensor, and a size is open")
    count = int(np.prod(sizes))
    flat = _roll(emit, emit.reshape(x, [-1]), shifts[0], 0, count, emit.ints([count]))
    return emit.reshape(flat, emit.ints(sizes))


def _roll(emit: Nodes, x: Value, shift: int, axis: int, known: int, size: Value) -> Value:
    shape = x.shape
    if known != UNKNOWN:
        if not known or not shift % known:
            return x
        place: Value = emit.ints([known - shift % known])
    else:
        place = emit("Sub", size, emit("Mod", emit.ints([shift]), size))
    last = emit.cut(x, [axis], place, [LAST])
    rolled = emit("Concat", last, emit.cut(x, [axis], [0], place), axis=axis)
    rolled.shape = shape
    return rolled


@exports(ops.Unbind)
def unbind(emit: Nodes, x: Value, axis: int, types: Sequence[Tensor]) -> tuple[Value, ...]:
    axis = normalize_axis(axis, len(sizes_of(x)))
    if len(types) == 1:
        return (emit.squeeze(x, axis),)
    sizes = emit.ints([1] * len(types))
    parts = emit.all("Split", x, sizes, dtypes=[None] * len(types), axis=axis)
    return tuple(emit.squeeze(part, axis) for part in parts)


@exports(ops.StridedSlice, open=("starts", "ends"))
def strided_slice(
    emit: Nodes,
    input: Value,
    axes: IntTuple,
    starts: Ints,
    ends: Ints,
    strides: IntTuple,
    decrease_axis: IntTuple,
) -> Value:
    part = emit.cut(input, axes, starts, ends, strides) if axes else input
    return emit.squeeze(part, *normalize_axes(decrease_axis, len(sizes_of(input))))


@exports(ops.SetValue)
def set_value(
    emit: Nodes,
    input: Value,
    value: Value,
    axes: IntTuple,
    starts: IntTuple,
    ends: IntTuple,
    steps: IntTuple,
    decrease_axes: IntTuple,
) -> Value:
    sizes, rank = sizes_of(input), len(sizes_of(input))
    place = [slice(None)] * rank
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        place[normalize_axis(axis, rank)] = slice(*bounds)
    dropped = normalize_axes(decrease_axes, rank)
    value = _align_rank(emit, value, rank - len(dropped))
    value = emit.unsqueeze(value, *dropped)
    if UNKNOWN not in sizes:
        # the flat positions of the elements that are written
        places = np.arange(int(np.prod(sizes))).reshape(sizes)[tuple(place)]
        updates = emit.reshape(emit("Expand", value, emit.ints(places.shape)), [-1])
        flat = emit.reshape(input, [-1])
        written = emit("ScatterElements", flat, emit.constant(places.reshape(-1)), updates, axis=0)
        return emit.reshape(written, emit.ints(sizes))
    whole = [part == slice(None) for part in place]
    if any(size == UNKNOWN and not kept for size, kept in zip(sizes, whole, strict=True)):
        raise NotInOnnx("a partly written axis has an open size")
    cut = [axis for axis in range(rank) if not whole[axis]]
    if len(cut) > 1:
        raise NotInOnnx("several axes are partly written, and a size is open")
    if not cut:
        return emit("Expand", value, emit.shape(input))
    (axis,) = cut
    rows = np.arange(sizes[axis])[place[axis]]
    order = [axis, *(i for i in range(rank) if i != axis)]
    shape = [len(rows) if i == axis else emit.size(input, i) for i in range(rank)]
    updates = emit.transpose(emit("Expand", value, emit.join_sizes(shape)), order)
    base = emit.transpose(input, order)
    written = emit("ScatterND", base, emit.constant(rows[:, None]), updates)
    return emit.transpose(written, [order.index(i) for i in range(rank)])


def _align_rank(emit: Nodes, value: Value, rank: int) -> Value:
    """Squeeze or unsqueeze leading axes until the value has the rank of its destination."""
    own = len(sizes_of(value))
    if own > rank:
        return emit.squeeze(value, *range(own - rank))
    return emit.unsqueeze(value, *range(rank - own))


@exports(ops.ExpandAs)
def expand_as(emit: Nodes, x: Value, y: Value) -> Value:
    return emit("Expand", x, emit.shape(y))


@exports(ops.Meshgrid)
def meshgrid(emit: Nodes, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    lines = [emit.reshape(x, [-1]) for x in inputs]
    sizes = [emit.size(x, 0) if sizes_of(x) else 1 for x in inputs]
    shape = emit.join_sizes(sizes)
    count = len(inputs)
    grids: list[Value] = []
    for at, line in enumerate(lines):
        along = emit.unsqueeze(line, *(i for i in range(count) if i != at))
        grids.append(emit("Expand", along, shape))
    return tuple(grids)


MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@exports(ops.Pad, open=("paddings",))
def pad(emit: Nodes, x: Value, paddings: Ints, mode: str, value: float) -> Value:
    if isinstance(paddings, Value):
        pairs = emit.reshape(paddings, [-1, 2])
        pads = emit.ints(emit.transpose(pairs, (1, 0)))
        return emit("Pad", x, pads, emit.number(value, x), mode=MODES[mode])
    pads = [*paddings[::2], *paddings[1::2]]
    if mode != "constant" and min(pads, default=0) < 0:
        # parts that are cut off are not mirrored
        cuts = [min(number, 0) for number in pads]
        x = emit("Pad", x, emit.ints(cuts), emit.number(0, x))
        pads = [max(number, 0) for number in pads]
    filled = emit.number(value, x) if mode == "constant" else None
    if dtype_of(x) == "bool":
        padded = emit("Pad", emit.cast(x, "int32"), emit.ints(pads), mode=MODES[mode])
        return emit.cast(padded, "bool")
    return emit("Pad", x, emit.ints(pads), filled, mode=MODES[mode])


@exports(ops.TriangleOf)
def tril_triu(emit: Nodes, x: Value, diagonal: int, lower: bool) -> Value:
    return emit("Trilu", x, emit.number(diagonal, "int64"), upper=int(not lower))
