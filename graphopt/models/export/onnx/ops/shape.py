"""Ops that move, join or cut elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.dialect.ops import shape as ops
from graphopt.ir.dialect.types import UNKNOWN, Tensor, normalize_axes, normalize_axis, shape_of
from graphopt.models.export.onnx.nodes import Ints, Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports
from graphopt.models.export.onnx.simplify import is_size

IntTuple = tuple[int, ...]


@exports(ops.Assign, ops.StopGradient)
def assign(emit: Nodes, x: Value) -> Value:
    return x


@exports(ops.Reshape, open=("shape",))
def reshape(emit: Nodes, x: Value, shape: Ints, types: Sequence[Tensor]) -> Value:
    if not isinstance(shape, Value):
        return _reshape_to(emit, x, shape, types[0])
    return _of_none(emit, x, types[0]) or emit.reshape(x, shape)


def _reshape_to(emit: Nodes, x: Value, sizes: Sequence[int | Value], type_: Tensor) -> Value:
    """Reshape x, with numbers for known sizes of the type: -1 fails for an empty batch."""
    known = [
        new if new != UNKNOWN and size == -1 else size
        for size, new in zip(sizes, shape_of(type_), strict=True)
    ]
    if known == [0, -1]:
        return _of_none(emit, x, type_) or emit("Flatten", x, axis=1)
    return _of_none(emit, x, type_) or emit.reshape(x, known)


def _of_none(emit: Nodes, x: Value, type_: Tensor) -> Value | None:
    """Reshape an empty tensor to known sizes, as -1 cannot be inferred; None for other tensors."""
    sizes = shape_of(type_)
    if 0 not in sizes_of(x) or UNKNOWN in sizes:
        return None
    return emit("Reshape", x, emit.ints(sizes), allowzero=1)


@exports(ops.ReshapeLike)
def reshape_like(emit: Nodes, x: Value, like: Value, shape: IntTuple) -> Value:
    sizes = [emit.size(like, at) if size == 0 else size for at, size in enumerate(shape)]
    return emit("Reshape", x, emit.join_sizes(sizes), allowzero=int(-1 not in shape))


@exports(ops.Transpose)
def transpose(emit: Nodes, x: Value, perm: IntTuple) -> Value:
    return emit.transpose(x, [normalize_axis(axis, len(sizes_of(x))) for axis in perm])


@exports(ops.Flatten)
def flatten(
    emit: Nodes, x: Value, start_axis: int, stop_axis: int, types: Sequence[Tensor]
) -> Value:
    rank = len(sizes_of(x))
    if not rank:
        return emit.reshape(x, [1])
    start, stop = normalize_axis(start_axis, rank), normalize_axis(stop_axis, rank)
    after = [emit.size(x, axis) for axis in range(stop + 1, rank)]
    sizes = [*[0] * start, -1, *after]
    return _reshape_to(emit, x, sizes, types[0])


@exports(ops.Squeeze)
def squeeze(emit: Nodes, x: Value, axis: IntTuple) -> Value:
    sizes = sizes_of(x)
    candidates = normalize_axes(axis, len(sizes)) if axis else range(len(sizes))
    if not axis and UNKNOWN in sizes:
        raise NotInOnnx("the axes of size 1 are known only when the model runs")
    ones = (1, UNKNOWN) if axis else (1,)
    return emit.squeeze(x, *(i for i in candidates if sizes[i] in ones))


@exports(ops.Unsqueeze)
def unsqueeze(emit: Nodes, x: Value, axis: IntTuple) -> Value:
    new = [False] * len(sizes_of(x))
    for position in axis:  # each position counts the axes inserted before it
        new.insert(normalize_axis(position, len(new) + 1), True)
    return emit.unsqueeze(x, *(at for at, is_new in enumerate(new) if is_new))


@exports(ops.Concat)
def concat(emit: Nodes, inputs: tuple[Value, ...], axis: int) -> Value:
    return inputs[0] if len(inputs) == 1 else emit("Concat", *inputs, axis=axis)


@exports(ops.Stack)
def stack(emit: Nodes, inputs: tuple[Value, ...], axis: int) -> Value:
    at = normalize_axis(axis, len(sizes_of(inputs[0])) + 1)
    parts = [emit.unsqueeze(value, at) for value in inputs]
    return parts[0] if len(parts) == 1 else emit("Concat", *parts, axis=at)


def _with_rest(emit: Nodes, sizes: Value, count: int, whole: Value) -> Value:
    """Replace one of `count` sizes that is -1, which only the run may know, by the rest."""
    if is_size(sizes):
        return sizes
    zero = emit.ints([0])
    is_rest = emit("Less", sizes, zero)
    known, rest = emit("Where", is_rest, zero, sizes), whole
    for at in range(count):
        rest = emit("Sub", rest, emit.cut(known, [0], [at], [at + 1]))
    return emit("Where", is_rest, rest, sizes)


@exports(ops.Split, open=("sections",))
def split(
    emit: Nodes, x: Value, axis: int, num: int, sections: Ints, types: Sequence[Tensor]
) -> tuple[Value, ...]:
    if len(types) == 1:
        return (x,)
    axis, dtypes = normalize_axis(axis, len(sizes_of(x))), [None] * len(types)
    parts = [shape_of(type_)[axis] for type_ in types]
    if isinstance(sections, Value):
        sizes = _with_rest(emit, emit.ints(sections), len(types), emit.size(x, axis))
        return emit.all("Split", x, sizes, dtypes=dtypes, axis=axis)
    if not sections and UNKNOWN in parts:
        return emit.all("Split", x, dtypes=dtypes, axis=axis, num_outputs=num)
    if UNKNOWN not in parts:
        return emit.all("Split", x, emit.ints(parts), dtypes=dtypes, axis=axis)
    rest = emit("Sub", emit.size(x, axis), emit.ints([sum(s for s in sections if s != -1)]))
    sizes = emit.join_sizes([rest if size == -1 else size for size in sections])
    return emit.all("Split", x, sizes, dtypes=dtypes, axis=axis)


@exports(ops.Slice, open=("starts", "ends"))
def slice_(
    emit: Nodes,
    input: Value,
    axes: IntTuple,
    starts: Ints,
    ends: Ints,
    decrease_axis: IntTuple,
) -> Value:
    if len(axes) == len(decrease_axis) == 1 and not isinstance(starts, Value):
        return emit("Gather", input, emit.number(starts[0], "int64"), axis=axes[0])
    part = emit.cut(input, axes, starts, ends) if axes else input
    return emit.squeeze(part, *normalize_axes(decrease_axis, len(sizes_of(input))))


@exports(ops.Expand, open=("shape",))
def expand(emit: Nodes, x: Value, shape: Ints) -> Value:
    """Expand; -1 keeps a size, which is 1 in ONNX."""
    if isinstance(shape, Value):
        sizes, one = emit.ints(shape), emit.ints([1])
        if is_size(sizes):
            return emit("Expand", x, sizes)
        kept = emit("Less", sizes, emit.ints([0]))
        return emit("Expand", x, emit("Where", kept, one, sizes))
    return emit("Expand", x, emit.ints([1 if size == -1 else size for size in shape]))


@exports(ops.ShapeOf)
def shape(emit: Nodes, input: Value) -> Value:
    return emit.cast(emit("Shape", input), "int32")
