"""Legacy operators that rearrange, repeat or cut, without a `pd` op of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.crop import Crop, block_of
from graphopt.ir.dialect.ops.math import Add, Cast, FloorDivide
from graphopt.ir.dialect.ops.rearrange import ExpandAs, Flip, RepeatInterleave, Tile
from graphopt.ir.dialect.ops.shape import (
    Expand,
    Flatten,
    Reshape,
    ShapeOf,
    Slice,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.types import UNKNOWN, broadcast_shapes, rank_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

# known numbers, or the tensor that holds them
_Numbers = SSAValue | Sequence[int]

_SUCCESSORS = {
    "reshape": (Reshape, "shape", "shape"),
    "squeeze": (Squeeze, "axis", "axes"),
    "unsqueeze": (Unsqueeze, "axis", "axes"),
}


@translates(*_SUCCESSORS)
def without_copy(emit: Emitter) -> Written:
    """Translate the first version of an operator, which gives no copy of the input's shape."""
    emit.only_constants_besides("X")
    op_class, name, legacy_name = _SUCCESSORS[emit.op.type]
    attrs = {name: emit.op.attr(legacy_name)}
    return emit.results(Out=emit(op_class, emit.input("X"), **attrs))


@translates("flatten", "flatten2")
def flatten(emit: Emitter) -> Written:
    """Reshape to a matrix: the dimensions before `axis` by the remaining dimensions."""
    emit.only_constants_besides("X")
    x, axis = emit.input("X"), emit.attr("axis")
    rank = rank_of(x.type)
    if not 0 <= axis <= rank:
        raise ProgramError(f"flatten: axis {axis} is out of range for {list(shape_of(x.type))}")
    if axis in (0, rank):
        return emit.results(Out=emit.reshape(x, *((1, -1) if axis == 0 else (-1, 1))))
    x = emit.matrix(x, axis)
    return emit.results(Out=emit(Flatten, x, start_axis=0, stop_axis=axis - 1) if axis > 1 else x)


@translates("transpose")
def transpose(emit: Emitter) -> Written:
    emit.only("X")
    return emit.results(Out=emit(Transpose, emit.input("X"), perm=emit.attr("axis")))


@translates("reverse")
def reverse(emit: Emitter) -> Written:
    emit.only("X")
    return emit.results(Out=emit(Flip, emit.input("X"), axis=emit.attr("axis")))


@translates("expand")
def expand(emit: Emitter) -> Written:
    x = emit.input("X")
    names = [*emit.op.input("ExpandTimes"), *emit.op.input("expand_times_tensor")]
    if names:
        attrs = {"repeat_times": tuple(emit.attr("expand_times"))}
        tensors = {"repeat_times": emit.join_elements(names)}
        return emit.results(Out=emit.dynamic(Tile, [x], attrs, tensors)[0])
    times = tuple(emit.op.attr("expand_times"))
    if len(times) != rank_of(x.type):
        raise ProgramError(
            f"expand needs a number for each axis of {list(shape_of(x.type))}, found {list(times)}"
        )
    return emit.results(Out=emit(Tile, x, repeat_times=times))


@translates("expand_as")
def expand_as(emit: Emitter) -> Written:
    """Tile x along each axis as often as it fits into the target."""
    emit.only_constants_besides("X", "target_tensor")
    x, target = emit.input("X"), emit.input("target_tensor")
    sizes, wanted = shape_of(x.type), shape_of(target.type)
    fits = len(sizes) == len(wanted)
    if fits and UNKNOWN in (*sizes, *wanted):
        pairs = list(zip(sizes, wanted, strict=True))
        if all(own == 1 or own == other != UNKNOWN for own, other in pairs):
            return emit.results(Out=emit(ExpandAs, x, target))
        tensors = {"repeat_times": emit(FloorDivide, emit(ShapeOf, target), emit(ShapeOf, x))}
        return emit.results(Out=emit.dynamic(Tile, [x], {}, tensors)[0])
    times: list[int] = []
    for own, other in zip(sizes, wanted, strict=False):
        fits = fits and (own == other or (own > 0 and other % own == 0))
        times.append(1 if own == other else other // max(own, 1))
    if not fits:
        raise ProgramError(f"{list(sizes)} cannot be repeated to the shape {list(wanted)}")
    return emit.results(Out=emit(Tile, x, repeat_times=times))


@translates("expand_as_v2")
def expand_as_v2(emit: Emitter) -> Written:
    """Expand to the shape of another tensor, or to a shape that the file states."""
    if emit.inputs("Y"):
        return emit.by_row()
    emit.only("X")
    return emit.results(Out=emit(Expand, emit.input("X"), shape=emit.attr("target_shape")))


@translates("broadcast_tensors")
def broadcast(emit: Emitter) -> Written:
    """Broadcast all tensors to one shape."""
    emit.only("X")
    given = emit.inputs("X")
    shape = broadcast_shapes(*(shape_of(x.type) for x in given))
    outs: list[SSAValue] = []
    for x in given:
        if UNKNOWN not in shape:
            outs.append(emit(Expand, x, shape=shape))
            continue
        for other in given:
            if other is not x:
                x = emit(ExpandAs, x, _widest(emit, x, other))
        outs.append(x)
    return emit.results(Out=outs)


def _widest(emit: Emitter, x: SSAValue, other: SSAValue) -> SSAValue:
    """Emit zeros in the shape that both values broadcast to."""
    zeros = [emit(FullLike, value, value=0.0, dtype="float32") for value in (x, other)]
    return emit(Add, *zeros)


@translates("repeat_interleave")
def repeat_interleave(emit: Emitter) -> Written:
    """Translate repeat_interleave; one count is an attribute, a count per slice a tensor."""
    if emit.inputs("RepeatsTensor"):
        return emit.by_row()
    repeats, axis = emit.attr("Repeats"), emit.attr("dim")
    return emit.results(Out=emit(RepeatInterleave, emit.input("X"), repeats=repeats, axis=axis))


@translates("crop", "crop_tensor")
def crop(emit: Emitter) -> Written:
    """Emit a window of x at an offset; a size of -1 extends to the end."""
    emit.only("X", "Y", "Shape", "ShapeTensor", "Offsets", "OffsetsTensor")
    x = emit.input("X")
    rank = rank_of(x.type)
    like = emit.optional("Y") if emit.op.type == "crop" else None
    sizes = _numbers(emit, "Shape", "shape") if like is None else shape_of(like.type)
    starts = _numbers(emit, "Offsets", "offsets")
    if isinstance(sizes, SSAValue) or isinstance(starts, SSAValue):
        return emit.results(Out=_block(emit, x, sizes, starts or (0,) * rank))
    if any(d == UNKNOWN for d in sizes if like):
        raise ProgramError(
            f"{emit.op.type} takes its sizes from 'Y' {list(sizes)}, which are not all known"
        )
    offsets = starts or (0,) * rank
    block_of(shape_of(x.type), sizes, offsets)
    pairs = list(zip(shape_of(x.type), offsets, sizes, strict=True))
    if all(whole != UNKNOWN or (size == -1 and not at) for whole, at, size in pairs):
        far = np.iinfo(np.int64).max
        ends = [far if size == -1 else at + size for _, at, size in pairs]
        axes = tuple(range(rank))
        return emit.results(Out=emit(Slice, x, axes=axes, starts=offsets, ends=ends))
    # a slice would be clipped to x, whose size only the run knows
    return emit.results(Out=emit(Crop, x, shape=sizes, offsets=offsets))


def _block(emit: Emitter, x: SSAValue, sizes: _Numbers, offsets: _Numbers) -> SSAValue:
    """Emit a block with a tensor for its offset or size; sizes that no run decides stay known."""
    given = {"shape": sizes, "offsets": offsets}
    tensors = {
        name: emit(Cast, value, dtype="int64")
        for name, value in given.items()
        if isinstance(value, SSAValue)
    }
    attrs = {name: value for name, value in given.items() if name not in tensors}
    out = emit.dynamic(Crop, [x], attrs, tensors)[0]
    if "shape" not in tensors or emit.op.input("Shape"):
        return out
    # beside a list of tensors, the attribute has the sizes that are known
    given = [max(int(size), 0) for size in emit.several("shape")]
    found = shape_of(out.type)
    if len(given) != len(found) or all(not n or n == d for n, d in zip(given, found, strict=True)):
        return out
    return emit.reshape(out, *given)


def _numbers(emit: Emitter, slot: str, name: str) -> _Numbers:
    """Read integers from one tensor, several, or an attribute; a tensor if a run decides them."""
    names = emit.op.input(slot) or emit.op.input(f"{slot}Tensor")
    known = [known_numbers(emit.read(each)) for each in names]
    if None in known:
        return emit.join_elements(names)
    found = [number for numbers in known for number in numbers or ()]
    return tuple(int(n) for n in found or emit.attr(name))
