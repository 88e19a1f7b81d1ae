"""Legacy operators that create, copy or rearrange, without a `pd` op of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.known import known_numbers
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
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation


def _transpose(make: Maker) -> Written:
    make.only("X")
    return make.results(Out=make(Transpose, make.input("X"), perm=make.attr("axis", ())))


def _reverse(make: Maker) -> Written:
    make.only("X")
    return make.results(Out=make(Flip, make.input("X"), axis=make.attr("axis", ())))


def _copy(make: Maker) -> Written:
    """The same values: places and lengths of sequences are not part of a value here."""
    slot = "X" if make.op.input("X") else "x"
    return make.results(**{out: make(Assign, make.input(slot)) for out in make.op.outputs})


def _filled(make: Maker) -> Written:
    """A number in the shape of x."""
    make.only("X")
    x, value = make.input("X"), 0.0
    if make.op.type == "fill_any":
        value = make.attr("value_float", 0.0) or make.attr("value_int", 0)
        value = make.attr("value", value)
    dtype = make.op.attrs.get("dtype", -1)
    if make.op.type == "fill_any" or dtype in (-1, None):
        dtype = None
    return make.results(Out=make(FullLike, x, value=value, dtype=dtype))


def _fill(make: Maker) -> Written:
    """Listed values."""
    shape, values = make.attr("shape", ()), make.attr("value", ())
    dtype = as_dtype(make.attr("dtype", 5))
    return make.results(Out=make(AssignValue, shape=shape, values=values, dtype=dtype))


def _is_empty(make: Maker) -> Written:
    make.only("X")
    count = make(Numel, make.input("X"))
    return make.results(Out=make(Equal, count, make(FullLike, count, value=0)))


def _triangle_indices(make: Maker) -> Written:
    """Rows and columns of a triangle."""
    rows = make.attr("rows", make.attr("row", 0))
    columns = make.attr("cols", make.attr("col", 0))
    if not (rows >= 0 and columns >= 0 and rows * columns <= 1 << 24):
        raise ProgramError(f"{make.op.type} of {rows} rows and {columns} columns")
    find = np.tril_indices if make.op.type == "tril_indices" else np.triu_indices
    places = np.stack(find(rows, make.attr("offset", 0), columns))
    made = make(
        AssignValue,
        shape=places.shape,
        values=places.reshape(-1).tolist(),
        dtype=as_dtype(make.attr("dtype", 3)),
    )
    return make.results(out=made)


def _broadcast(make: Maker) -> Written:
    """All in one shape."""
    make.only("X")
    given = make.inputs("X")
    shape = broadcast_shapes(*(shape_of(x.type) for x in given))
    outs: list[SSAValue] = []
    for x in given:
        if UNKNOWN not in shape:
            outs.append(make(Expand, x, shape=shape))
            continue
        for other in given:
            if other is not x:
                x = make(ExpandAs, x, _widest(make, x, other))
        outs.append(x)
    return make.results(Out=outs)


def _widest(make: Maker, x: SSAValue, other: SSAValue) -> SSAValue:
    """Zeros in the shape that both broadcast to."""
    zeros = [make(FullLike, value, value=0.0, dtype="float32") for value in (x, other)]
    return make(Add, *zeros)


def _crop(make: Maker) -> Written:
    """A window of x at an offset; -1 is up to the end."""
    make.only("X", "Y", "Shape", "ShapeTensor", "Offsets", "OffsetsTensor")
    x = make.input("X")
    rank = rank_of(x.type)
    like = make.optional("Y") if make.op.type == "crop" else None
    shape = _numbers(make, ("Shape", "ShapeTensor"), "shape")
    if like is not None:
        shape = shape_of(like.type)
    offsets = _numbers(make, ("Offsets", "OffsetsTensor"), "offsets") or (0,) * rank
    if len(shape) != rank or len(offsets) != rank or any(d == UNKNOWN for d in shape if like):
        raise ProgramError(
            f"{make.op.type} of {list(shape_of(x.type))} to {list(shape)} at {list(offsets)}"
        )
    far = np.iinfo(np.int64).max
    ends = [far if d == -1 else at + d for at, d in zip(offsets, shape, strict=True)]
    for size, end in zip(shape_of(x.type), ends, strict=True):
        if size >= 0 and end != far and end > size:
            raise ProgramError(
                f"{make.op.type} of {list(shape_of(x.type))} to {list(shape)} at {list(offsets)}"
                " reaches outside"
            )
    return make.results(Out=make(Slice, x, axes=tuple(range(rank)), starts=offsets, ends=ends))


def _numbers(make: Maker, slots: Sequence[str], name: str) -> tuple[int, ...]:
    """Integers in tensors that the program fixes, or in an attribute."""
    found: list[Any] = []
    for slot in slots:
        for value in make.inputs(slot) if not found else ():
            numbers = known_numbers(value)
            if numbers is None:
                raise UnsupportedError(
                    f"operator {make.op.type} takes '{slot}' from a tensor whose value is not "
                    "known before the program runs"
                )
            found += numbers
    return tuple(int(n) for n in found or make.attr(name, ()))


def _random_like(make: Maker) -> Written:
    """Random numbers with one dimension taken from a tensor."""
    make.only("Input")
    x, shape = make.input("Input"), [int(d) for d in make.attr("shape", ())]
    source, target = (make.attr(f"{n}_dim_idx", 0) for n in ("input", "output"))
    if not (0 <= source < rank_of(x.type) and 0 <= target < len(shape)):
        raise ProgramError(
            f"dimension {source} of {list(shape_of(x.type))} cannot be dimension {target} of "
            f"{shape}"
        )
    size = int(shape_of(x.type)[int(source)])
    attrs = {"dtype": as_dtype(make.attr("dtype", 5)), "seed": make.attr("seed", 0)}
    if make.op.type.startswith("uniform"):
        op_class: type[PdOp] = Uniform
        attrs |= {"min": make.attr("min", -1.0), "max": make.attr("max", 1.0)}
    else:
        op_class = Gaussian
        attrs |= {"mean": make.attr("mean", 0.0), "std": make.attr("std", 1.0)}
    if size != UNKNOWN:
        shape[target] = size
        return make.results(Out=make(op_class, shape=shape, **attrs))
    own = make(Slice, make(ShapeOf, x), axes=(0,), starts=(source,), ends=(source + 1,))
    parts = [
        own
        if at == target
        else make(AssignValue, shape=(1,), values=(dim,), dtype=dtype_of(own.type))
        for at, dim in enumerate(shape)
    ]
    tensors = {"shape": make(Concat, parts, axis=0)}
    shape[target] = -1
    made = make.translator.emit_late(op_class, make.op, (), {**attrs, "shape": shape}, tensors)
    return make.results(Out=made.results[0])


def _sampling_id(make: Maker) -> Written:
    """A class for each row of probabilities."""
    make.only("X")
    drawn = make(Multinomial, make.input("X"), num_samples=1, seed=make.attr("seed", 0))
    return make.results(Out=make(Squeeze, drawn, axis=(-1,)))


def _expand_as(make: Maker) -> Written:
    """Like another tensor, or in a shape that the file names."""
    if make.inputs("Y"):
        return make.by_row()
    make.only("X")
    return make.results(Out=make(Expand, make.input("X"), shape=make.attr("target_shape", ())))


_COPIES = ("memcpy_h2d", "memcpy_d2h", "lod_reset")
SHAPES: Mapping[str, Translation] = {
    type: translation(made)
    for type, made in {
        "transpose": _transpose,
        "reverse": _reverse,
        "fill_any": _filled,
        "fill": _fill,
        "is_empty": _is_empty,
        "tril_indices": _triangle_indices,
        "triu_indices": _triangle_indices,
        "broadcast_tensors": _broadcast,
        "crop": _crop,
        "crop_tensor": _crop,
        "uniform_random_batch_size_like": _random_like,
        "gaussian_random_batch_size_like": _random_like,
        "sampling_id": _sampling_id,
        "expand_as_v2": _expand_as,
        **dict.fromkeys(_COPIES, _copy),
    }.items()
}
