"""Legacy operators that create, copy or rearrange, without a `pd` op of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.constants import known_numbers
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.math import Add, Equal
from graphopt.ir.dialect.ops.random import Gaussian, Multinomial, Uniform
from graphopt.ir.dialect.ops.rearrange import ExpandAs, Flip
from graphopt.ir.dialect.ops.reduce import Numel
from graphopt.ir.dialect.ops.shape import (
    Assign,
    Concat,
    Expand,
    ShapeOf,
    Slice,
    Squeeze,
    Transpose,
)
from graphopt.ir.dialect.types import UNKNOWN, broadcast_shapes, dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("transpose")
def transpose(emit: Emitter) -> Written:
    emit.only("X")
    return emit.results(Out=emit(Transpose, emit.input("X"), perm=emit.attr("axis", ())))


@translates("reverse")
def reverse(emit: Emitter) -> Written:
    emit.only("X")
    return emit.results(Out=emit(Flip, emit.input("X"), axis=emit.attr("axis", ())))


@translates("memcpy_h2d", "memcpy_d2h", "lod_reset")
def copy(emit: Emitter) -> Written:
    """The same values: places and lengths of sequences are not part of a value here."""
    slot = "X" if emit.op.input("X") else "x"
    return emit.results(**{out: emit(Assign, emit.input(slot)) for out in emit.op.outputs})


@translates("fill_any")
def filled(emit: Emitter) -> Written:
    """A number in the shape of x."""
    emit.only("X")
    x, value = emit.input("X"), 0.0
    if emit.op.type == "fill_any":
        value = emit.attr("value_float", 0.0) or emit.attr("value_int", 0)
        value = emit.attr("value", value)
    dtype = emit.op.attrs.get("dtype", -1)
    if emit.op.type == "fill_any" or dtype in (-1, None):
        dtype = None
    return emit.results(Out=emit(FullLike, x, value=value, dtype=dtype))


@translates("fill")
def fill(emit: Emitter) -> Written:
    """Listed values."""
    shape, values = emit.attr("shape", ()), emit.attr("value", ())
    dtype = as_dtype(emit.attr("dtype", 5))
    return emit.results(Out=emit(AssignValue, shape=shape, values=values, dtype=dtype))


@translates("is_empty")
def is_empty(emit: Emitter) -> Written:
    emit.only("X")
    count = emit(Numel, emit.input("X"))
    return emit.results(Out=emit(Equal, count, emit(FullLike, count, value=0)))


@translates("tril_indices", "triu_indices")
def triangle_indices(emit: Emitter) -> Written:
    """Rows and columns of a triangle."""
    rows = emit.attr("rows", emit.attr("row", 0))
    columns = emit.attr("cols", emit.attr("col", 0))
    if not (rows >= 0 and columns >= 0 and rows * columns <= 1 << 24):
        raise ProgramError(f"{emit.op.type} of {rows} rows and {columns} columns")
    find = np.tril_indices if emit.op.type == "tril_indices" else np.triu_indices
    places = np.stack(find(rows, emit.attr("offset", 0), columns))
    made = emit(
        AssignValue,
        shape=places.shape,
        values=places.reshape(-1).tolist(),
        dtype=as_dtype(emit.attr("dtype", 3)),
    )
    return emit.results(out=made)


@translates("broadcast_tensors")
def broadcast(emit: Emitter) -> Written:
    """All in one shape."""
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
    """Zeros in the shape that both broadcast to."""
    zeros = [emit(FullLike, value, value=0.0, dtype="float32") for value in (x, other)]
    return emit(Add, *zeros)


@translates("crop", "crop_tensor")
def crop(emit: Emitter) -> Written:
    """A window of x at an offset; -1 is up to the end."""
    emit.only("X", "Y", "Shape", "ShapeTensor", "Offsets", "OffsetsTensor")
    x = emit.input("X")
    rank = rank_of(x.type)
    like = emit.optional("Y") if emit.op.type == "crop" else None
    shape = _numbers(emit, ("Shape", "ShapeTensor"), "shape")
    if like is not None:
        shape = shape_of(like.type)
    offsets = _numbers(emit, ("Offsets", "OffsetsTensor"), "offsets") or (0,) * rank
    if len(shape) != rank or len(offsets) != rank or any(d == UNKNOWN for d in shape if like):
        raise ProgramError(
            f"{emit.op.type} of {list(shape_of(x.type))} to {list(shape)} at {list(offsets)}"
        )
    far = np.iinfo(np.int64).max
    ends = [far if d == -1 else at + d for at, d in zip(offsets, shape, strict=True)]
    for size, end in zip(shape_of(x.type), ends, strict=True):
        if size >= 0 and end != far and end > size:
            raise ProgramError(
                f"{emit.op.type} of {list(shape_of(x.type))} to {list(shape)} at {list(offsets)}"
                " reaches outside"
            )
    return emit.results(Out=emit(Slice, x, axes=tuple(range(rank)), starts=offsets, ends=ends))


def _numbers(emit: Emitter, slots: Sequence[str], name: str) -> tuple[int, ...]:
    """Integers in tensors that the program fixes, or in an attribute."""
    found: list[Any] = []
    for slot in slots:
        for value in emit.inputs(slot) if not found else ():
            numbers = known_numbers(value)
            if numbers is None:
                raise UnsupportedError(
                    f"operator {emit.op.type} takes '{slot}' from a tensor whose value is not "
                    "known before the program runs"
                )
            found += numbers
    return tuple(int(n) for n in found or emit.attr(name, ()))


@translates("uniform_random_batch_size_like", "gaussian_random_batch_size_like")
def random_like(emit: Emitter) -> Written:
    """Random numbers with one dimension taken from a tensor."""
    emit.only("Input")
    x, shape = emit.input("Input"), [int(d) for d in emit.attr("shape", ())]
    source, target = (emit.attr(f"{n}_dim_idx", 0) for n in ("input", "output"))
    if not (0 <= source < rank_of(x.type) and 0 <= target < len(shape)):
        raise ProgramError(
            f"dimension {source} of {list(shape_of(x.type))} cannot be dimension {target} of "
            f"{shape}"
        )
    size = int(shape_of(x.type)[int(source)])
    attrs = {"dtype": as_dtype(emit.attr("dtype", 5)), "seed": emit.attr("seed", 0)}
    if emit.op.type.startswith("uniform"):
        op_class: type[PdOp] = Uniform
        attrs |= {"min": emit.attr("min", -1.0), "max": emit.attr("max", 1.0)}
    else:
        op_class = Gaussian
        attrs |= {"mean": emit.attr("mean", 0.0), "std": emit.attr("std", 1.0)}
    if size != UNKNOWN:
        shape[target] = size
        return emit.results(Out=emit(op_class, shape=shape, **attrs))
    own = emit(Slice, emit(ShapeOf, x), axes=(0,), starts=(source,), ends=(source + 1,))
    parts = [
        own
        if at == target
        else emit(AssignValue, shape=(1,), values=(dim,), dtype=dtype_of(own.type))
        for at, dim in enumerate(shape)
    ]
    tensors = {"shape": emit(Concat, parts, axis=0)}
    shape[target] = -1
    return emit.results(Out=emit.late(op_class, (), {**attrs, "shape": shape}, tensors)[0])


@translates("sampling_id")
def sampling_id(emit: Emitter) -> Written:
    """A class for each row of probabilities."""
    emit.only("X")
    drawn = emit(Multinomial, emit.input("X"), num_samples=1, seed=emit.attr("seed", 0))
    return emit.results(Out=emit(Squeeze, drawn, axis=(-1,)))


@translates("expand_as_v2")
def expand_as_v2(emit: Emitter) -> Written:
    """Like another tensor, or in a shape that the file names."""
    if emit.inputs("Y"):
        return emit.by_row()
    emit.only("X")
    return emit.results(Out=emit(Expand, emit.input("X"), shape=emit.attr("target_shape", ())))


_COPIES = ("memcpy_h2d", "memcpy_d2h", "lod_reset")
