"""Shapes, and slicing, joining and rearranging of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import shape as ops
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.math import Equal, Where
from graphopt.ir.dialect.ops.rearrange import Flip, StridedSlice, Tile
from graphopt.ir.dialect.ops.reduce import Numel
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import END, OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads


@reads("Identity")
def identity(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    return emit(ops.Assign, x)


@reads("Shape")
def shape_of(emit: OnnxEmitter, x: SSAValue, *, start: int = 0, end: int | None = None) -> SSAValue:
    count = rank(x)
    first, last = _bounds(start, 0, count), _bounds(end, count, count)
    sizes = emit.shape(x)
    if (first, last) == (0, count):
        return sizes
    return emit(ops.Slice, sizes, axes=(0,), starts=(first,), ends=(max(first, last),))


def _bounds(number: int | None, default: int, count: int) -> int:
    if number is None:
        return default
    return min(max(number + count if number < 0 else number, 0), count)


@reads("Size")
def size(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    if UNKNOWN not in shape(x):
        return emit.constant([prod(shape(x))], "int64", ())
    return emit.to_shape(emit.cast(emit(Numel, x), "int64"), ())


@reads("Reshape")
def reshape(
    emit: OnnxEmitter,
    x: SSAValue,
    target: SSAValue | None = None,
    *,
    allowzero: int = 0,
    shape: Sequence[int] | None = None,
) -> SSAValue:
    """Reshape to known sizes or a shape tensor; 0 keeps a size, or means 0 with `allowzero`."""
    if target is None:
        return emit.to_shape(x, tuple(shape or ()))
    numbers = emit.known_elements(target)
    if numbers is None:
        if allowzero:
            raise emit.open("allowzero needs a known shape", target)
        return emit.to_shape(x, target)
    if allowzero and 0 in numbers:
        if -1 in numbers:
            raise emit.refuse("the shape has both 0 and -1")
        return emit(Full, shape=numbers, value=0.0, dtype=dtype(x))
    return emit.to_shape(x, _whole(x, numbers))


def _whole(x: SSAValue, numbers: Sequence[int]) -> tuple[int, ...]:
    """Resolve -1 in the sizes if `x` is known to have no elements, as an op could not infer it."""
    sizes = shape(x)
    if UNKNOWN in sizes:
        return tuple(numbers)
    found = [sizes[i] if n == 0 and i < len(sizes) else n for i, n in enumerate(numbers)]
    if -1 in found and 0 in sizes:
        rest = prod(n for n in found if n != -1)
        return tuple(0 if n == -1 and rest else n for n in found) if 0 not in found else (*found,)
    return tuple(numbers)


@reads("Flatten")
def flatten(emit: OnnxEmitter, x: SSAValue, *, axis: int = 1) -> SSAValue:
    """Reshape to a matrix: the axes before `axis` by the axes from it on."""
    count = rank(x)
    at = axis + count if axis < 0 else axis
    if at in (0, count):
        return emit.reshape(x, *((1, -1) if at == 0 else (-1, 1)))
    if UNKNOWN not in shape(x):
        return emit.to_shape(x, (prod(shape(x)[:at]), prod(shape(x)[at:])))
    if at < count - 1:
        x = emit(ops.Flatten, x, start_axis=at)
    return emit(ops.Flatten, x, start_axis=0, stop_axis=at - 1) if at > 1 else x


def _axes(
    emit: OnnxEmitter, given: SSAValue | None, axes: Sequence[int] | None
) -> tuple[int, ...] | None:
    """Return the axes: an operand since opset 13, an attribute before."""
    if given is not None:
        return emit.numbers(given, "axes")
    return None if axes is None else tuple(axes)


@reads("Squeeze")
def squeeze(
    emit: OnnxEmitter,
    x: SSAValue,
    given: SSAValue | None = None,
    *,
    axes: Sequence[int] | None = None,
) -> SSAValue:
    found = _axes(emit, given, axes)
    if found is None:
        found = [i for i, dim in enumerate(emit.sizes(x)) if dim == 1]
    at = tuple(sorted(emit.axis(axis, rank(x)) for axis in found))
    for axis in at:
        if shape(x)[axis] not in (1, UNKNOWN):
            raise emit.refuse(f"the size of axis {axis} of {list(shape(x))} is not 1")
    return emit(ops.Squeeze, x, axis=at) if at else x


@reads("Unsqueeze")
def unsqueeze(
    emit: OnnxEmitter,
    x: SSAValue,
    given: SSAValue | None = None,
    *,
    axes: Sequence[int] | None = None,
) -> SSAValue:
    found = _axes(emit, given, axes) or ()
    whole = rank(x) + len(found)
    at = tuple(sorted(emit.axis(axis, whole) for axis in found))
    return emit(ops.Unsqueeze, x, axis=at) if at else x


@reads("Transpose")
def transpose(emit: OnnxEmitter, x: SSAValue, *, perm: Sequence[int] | None = None) -> SSAValue:
    return emit.transpose(x, tuple(reversed(range(rank(x)))) if perm is None else perm)


@reads("Concat")
def concat(emit: OnnxEmitter, *operands: SSAValue, axis: int = 1) -> SSAValue:
    return emit(ops.Concat, list(operands), axis=emit.axis(axis, rank(operands[0])))


@reads("Split")
def split(
    emit: OnnxEmitter,
    x: SSAValue,
    given: SSAValue | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    split: Sequence[int] | None = None,
) -> Sequence[SSAValue]:
    """Split into these sizes, or into parts as equal as possible, the last one smaller."""
    at = emit.axis(axis, rank(x))
    count = len(emit.op.output("Out"))
    if num_outputs is not None and num_outputs != count:
        raise emit.refuse(f"num_outputs is {num_outputs}, but the number of outputs is {count}")
    found = emit.numbers(given, "sizes of parts") if given is not None else split
    if found is None:
        whole = shape(x)[at]
        if whole == UNKNOWN:
            return emit.all(ops.Split, x, num=count, axis=at)
        each = -(-whole // count)
        found = [min(each, max(whole - i * each, 0)) for i in range(count)]
    if len(found) == 1:
        return [x]
    return emit.all(ops.Split, x, sections=tuple(map(int, found)), axis=at)


@reads("Slice")
def slice_(
    emit: OnnxEmitter,
    x: SSAValue,
    starts_given: SSAValue | None = None,
    ends_given: SSAValue | None = None,
    axes_given: SSAValue | None = None,
    steps_given: SSAValue | None = None,
    *,
    starts: Sequence[int] = (),
    ends: Sequence[int] = (),
    axes: Sequence[int] | None = None,
) -> SSAValue:
    """Emit a slice; its bounds are operands since opset 10, and were attributes before."""
    if starts_given is None or ends_given is None:
        at = axes if axes is not None else range(len(starts))
        return _cut(emit, x, starts, ends, [emit.axis(a, rank(x)) for a in at], None)
    count = shape(starts_given)[0]
    if axes_given is not None:
        at = emit.numbers(axes_given, "axes")
    else:
        at = range(rank(x) if count == UNKNOWN else count)
    found = [emit.axis(int(axis), rank(x)) for axis in at]
    steps = None if steps_given is None else emit.numbers(steps_given, "steps")
    first, last = emit.known_elements(starts_given), emit.known_elements(ends_given)
    if first is not None and last is not None:
        return _cut(emit, x, first, last, found, steps)
    if steps is not None and any(step != 1 for step in steps):
        tensors = {
            "starts": emit.cast(starts_given, "int64"),
            "ends": emit.cast(ends_given, "int64"),
        }
        attrs = {"axes": tuple(found), "strides": tuple(map(int, steps))}
        return emit.dynamic(StridedSlice, [x], attrs, tensors)[0]
    tensors = {"starts": emit.cast(starts_given, "int64"), "ends": emit.cast(ends_given, "int64")}
    return emit.dynamic(ops.Slice, [x], {"axes": tuple(found)}, tensors)[0]


def _cut(
    emit: OnnxEmitter,
    x: SSAValue,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int] | None,
) -> SSAValue:
    """Emit a slice with known bounds, clamped to the 32 bits that the op counts in."""
    if not axes:
        return x
    steps = [1] * len(axes) if steps is None else [int(step) for step in steps]
    first = [max(min(int(n), END), -END) for n in starts]
    last = [max(min(int(n), END), -END) for n in ends]
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    first, last = [first[i] for i in order], [last[i] for i in order]
    steps, found = [steps[i] for i in order], tuple(axes[i] for i in order)
    if all(step == 1 for step in steps):
        return emit(ops.Slice, x, axes=found, starts=tuple(first), ends=tuple(last))
    for i, axis in enumerate(found):
        whole = shape(x)[axis]
        if whole != UNKNOWN:
            bounds = slice(first[i], last[i], steps[i]).indices(whole)
            first[i], last[i] = bounds[0], bounds[1] if bounds[1] >= 0 else -END
            if steps[i] > 0:
                last[i] = max(last[i], first[i])
    return emit(
        StridedSlice, x, axes=found, starts=tuple(first), ends=tuple(last), strides=tuple(steps)
    )


@reads("Expand")
def expand(emit: OnnxEmitter, x: SSAValue, target: SSAValue) -> SSAValue:
    """Broadcast in both directions: a target size of 1 keeps the size of `x`."""
    numbers = emit.known_elements(target)
    sizes = shape(x)
    if numbers is not None:
        count = max(len(numbers), len(sizes))
        wide = (1,) * (count - len(numbers)) + tuple(map(int, numbers))
        own = (1,) * (count - len(sizes)) + sizes
        found = [-1 if want == 1 else want for want in wide]
        found = [
            size if want == -1 and size != UNKNOWN else want
            for want, size in zip(found, own, strict=True)
        ]
        if len(sizes) < count:
            x = emit.unsqueeze(x, *range(count - len(sizes)))
        return emit.expand(x, tuple(found))
    length = shape(target)[0]
    if length == UNKNOWN:
        raise emit.open("the number of dimensions of the result is unknown")
    if length > len(sizes):
        x = emit.unsqueeze(x, *range(length - len(sizes)))
    own = emit.shape(x)
    if length < len(sizes):
        ones = emit.constant([1] * (len(sizes) - length), "int64")
        target = emit(ops.Concat, [ones, target], axis=0)
    if 1 not in shape(x) and UNKNOWN not in shape(x):
        return x
    if all(size == 1 for size in shape(x)):
        return emit.expand(x, target)
    keeps = emit(Equal, target, emit.number(1, target))
    return emit.expand(x, emit(Where, keeps, own, target))


@reads("Tile")
def tile(emit: OnnxEmitter, x: SSAValue, repeats: SSAValue) -> SSAValue:
    return emit.emit_with_tensor(Tile, [x], "repeat_times", repeats)


@reads("ScanAxis")
def scan_axis(emit: OnnxEmitter, x: SSAValue, *, axis: int, reverse: int, back: int) -> SSAValue:
    """Move the steps of a Scan to the first axis, or with `back` from it to `axis`.

    This operator is graphopt's, not ONNX's.
    """
    at = emit.axis(axis, rank(x))
    if reverse:
        x = emit(Flip, x, axis=(0,) if back else (at,))
    others = [i for i in range(rank(x)) if i != at]
    perm = [at, *others]
    if back:
        perm = [perm.index(i) for i in range(rank(x))]
    return emit.transpose(x, perm)
