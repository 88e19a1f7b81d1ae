"""Constants, ranges and random numbers: values as text or lists, shapes from other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.complex import Complex
from graphopt.ir.dialect.ops.creation import AssignValue, FullLike
from graphopt.ir.dialect.ops.math import Cast, Divide, Scale
from graphopt.ir.dialect.ops.random import (
    Gaussian,
    Multinomial,
    RandomIntegers,
    StandardGamma,
    Uniform,
)
from graphopt.ir.dialect.ops.reduce import Max, Sum
from graphopt.ir.dialect.ops.shape import Concat, Expand, ShapeOf, Slice, Squeeze
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.properties import row_attrs
from graphopt.ir.translate.operators.registry import translates


@translates("fill_constant")
def fill_constant(emit: Emitter) -> Written:
    """Translate fill_constant; large and special values are stored as text in `str_value`."""
    text = emit.op.attrs.get("str_value") or ""
    value = emit.op.attrs["value"]
    if text:
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    given = emit.optional("ValueTensor")
    if given is None:
        return emit.by_row(value=value)
    cast = emit(Cast, emit.reshape(given), dtype=emit.op.attrs["dtype"])
    attrs = {"shape": emit.op.attrs["shape"]}
    made = emit.dynamic(Expand, [cast], attrs, emit.tensor_properties(emit.row))
    return emit.results(Out=made[0])


@translates("empty")
def empty(emit: Emitter) -> Written:
    """Emit zeros for an uninitialized tensor."""
    return emit.by_row(value=0.0)


@translates("fill_any_like")
def fill_any_like(emit: Emitter) -> Written:
    dtype = emit.op.attrs["dtype"]
    return emit.by_row(dtype=None if dtype in (-1, None) else dtype)


@translates("assign_value")
def assign_value(emit: Emitter) -> Written:
    """Emit the values in the dtype's attribute; complex ones as a real and an imaginary part."""
    dtype = as_dtype(emit.op.attr("dtype"))
    lists = [v for name, v in emit.op.attrs.items() if name.endswith("values") and v]
    values, shape = lists[0] if lists else (), emit.op.attr("shape")
    if not dtype.is_complex:
        return emit.results(Out=emit(AssignValue, shape=shape, values=values, dtype=dtype))
    numbers = [complex(value) for value in values]
    part = "float32" if dtype == "complex64" else "float64"
    real, imaginary = [each.real for each in numbers], [each.imag for each in numbers]
    parts = [emit(AssignValue, shape=shape, values=each, dtype=part) for each in (real, imaginary)]
    return emit.results(Out=emit(Complex, *parts))


@translates("range", "linspace", "logspace")
def translate_ranges(emit: Emitter) -> Written:
    """Translate a range with attributes or tensors for its bounds."""
    tensors, attrs = emit.tensor_properties(emit.row), row_attrs(emit.op, emit.row)
    if tensors:
        stated = emit.op.attrs.get("dtype")
        attrs["dtype"] = dtype_of(next(iter(tensors.values())).type) if stated is None else stated
    return emit.results(Out=emit.dynamic(emit.row.op, (), attrs, tensors)[0])


@translates("fill_any")
def fill_any(emit: Emitter) -> Written:
    """Emit one number in the shape of x; Paddle 1.8 has an attribute for each kind of number."""
    emit.only("X")
    fraction, whole = emit.attr("value_float"), emit.attr("value_int")
    value = emit.attr("value") or fraction or float(whole)
    return emit.results(Out=emit(FullLike, emit.input("X"), value=value))


@translates("fill")
def fill(emit: Emitter) -> Written:
    """Emit a constant of listed values."""
    shape, values = emit.attr("shape"), emit.attr("value")
    dtype = as_dtype(emit.attr("dtype"))
    return emit.results(Out=emit(AssignValue, shape=shape, values=values, dtype=dtype))


@translates("fill_zeros_like", "fill_zeros_like2")
def zeros_like(emit: Emitter) -> Written:
    return emit.results(Out=emit(FullLike, emit.input("X"), value=0.0))


@translates("fill_constant_batch_size_like")
def fill_constant_batch_size_like(emit: Emitter) -> Written:
    """Emit a constant with one dimension taken from a tensor, by a sum over the other axes."""
    x, given = emit.input("Input"), emit.op.attrs
    shape = [int(dim) for dim in emit.op.attr("shape")]
    source, target = _find_taken_dim(emit, x, shape)
    rank, value = rank_of(x.type), float(given.get("str_value") or given.get("value", 0.0))
    axes = tuple(axis for axis in range(rank) if axis != source)
    rows = emit(Sum, x, axis=axes) if axes else x
    filled = emit(FullLike, rows, value=value, dtype=as_dtype(emit.op.attr("dtype")))
    column = emit.along(filled, len(shape), target)
    shape[target] = -1
    return emit.results(Out=emit(Expand, column, shape=shape))


@translates("uniform_random_batch_size_like", "gaussian_random_batch_size_like")
def random_like(emit: Emitter) -> Written:
    """Emit random numbers with one dimension taken from a tensor."""
    emit.only("Input")
    x, shape = emit.input("Input"), [int(d) for d in emit.attr("shape")]
    places = _find_taken_dim(emit, x, shape)
    attrs = {"dtype": as_dtype(emit.attr("dtype")), "seed": emit.attr("seed")}
    if emit.op.type.startswith("uniform"):
        op_class: type[PdOp] = Uniform
        attrs |= {"min": emit.attr("min"), "max": emit.attr("max")}
    else:
        op_class = Gaussian
        attrs |= {"mean": emit.attr("mean"), "std": emit.attr("std")}
    return emit.results(Out=drawn_like(emit, op_class, x, shape, *places, **attrs))


def drawn_like(
    emit: Emitter,
    op_class: type[PdOp],
    x: SSAValue,
    shape: list[int],
    source: int = 0,
    target: int = 0,
    **attrs: Any,
) -> SSAValue:
    """Emit random numbers whose dimension `target` has the size of dimension `source` of x."""
    size = shape_of(x.type)[source]
    if size != UNKNOWN:
        shape[target] = size
        return emit(op_class, shape=shape, **attrs)
    own = emit(Slice, emit(ShapeOf, x), axes=(0,), starts=(source,), ends=(source + 1,))
    parts = [
        own
        if at == target
        else emit(AssignValue, shape=(1,), values=(dim,), dtype=dtype_of(own.type))
        for at, dim in enumerate(shape)
    ]
    tensors = {"shape": emit(Concat, parts, axis=0)}
    shape[target] = -1
    return emit.dynamic(op_class, (), {**attrs, "shape": shape}, tensors)[0]


def _find_taken_dim(emit: Emitter, x: SSAValue, shape: list[int]) -> tuple[int, int]:
    """Find the dimension of x whose size a shape takes, and its position in the shape."""
    source, target = emit.attr("input_dim_idx"), emit.attr("output_dim_idx")
    if not (0 <= source < rank_of(x.type) and 0 <= target < len(shape)):
        raise ProgramError(
            f"dimension {source} of {list(shape_of(x.type))} cannot be dimension {target} of "
            f"{shape}"
        )
    return source, target


@translates("seed")
def seed(emit: Emitter) -> Written:
    """Emit the seed of a dropout that is computed twice: fixed, or drawn for the run."""
    given = emit.attr("seed")
    if given:
        return emit.results(Out=emit(AssignValue, shape=(1,), values=(given,), dtype="int32"))
    drawn = emit(RandomIntegers, low=1, high=2**31 - 1, shape=(1,), dtype="int32", seed=0)
    return emit.results(Out=drawn)


@translates("sampling_id")
def sampling_id(emit: Emitter) -> Written:
    """Draw a class for each row of probabilities."""
    emit.only("X")
    drawn = emit(Multinomial, emit.input("X"), num_samples=1, seed=emit.attr("seed"))
    return emit.results(Out=emit(Squeeze, drawn, axis=(-1,)))


@translates("dirichlet")
def dirichlet(emit: Emitter) -> Written:
    """Draw shares that add up to 1: samples of gamma distributions over their sum."""
    drawn = emit(StandardGamma, emit.input("Alpha"))
    return emit.results(Out=emit(Divide, drawn, emit(Sum, drawn, axis=(-1,), keepdim=True)))


@translates("exponential")
def exponential(emit: Emitter) -> Written:
    """Draw from an exponential distribution of rate `lambda`, as gamma samples of shape 1."""
    rate = emit.attr("lambda")
    if rate <= 0:
        raise ProgramError(f"operator exponential: 'lambda' must be above 0, found {rate}")
    drawn = emit(StandardGamma, emit(FullLike, emit.input("X"), value=1.0))
    return emit.results(Out=emit(Scale, drawn, scale=1.0 / rate))


@translates("tril_indices", "triu_indices")
def triangle_indices(emit: Emitter) -> Written:
    """Emit the row and column indices of a triangle."""
    is_lower = emit.op.type == "tril_indices"
    rows, columns = (emit.attr(n) for n in (("rows", "cols") if is_lower else ("row", "col")))
    if not (rows >= 0 and columns >= 0 and rows * columns <= 1 << 24):
        raise ProgramError(f"operator {emit.op.type} cannot have {rows} rows and {columns} columns")
    find = np.tril_indices if is_lower else np.triu_indices
    places = np.stack(find(rows, emit.attr("offset"), columns))
    made = emit(
        AssignValue,
        shape=places.shape,
        values=places.reshape(-1).tolist(),
        dtype=as_dtype(emit.attr("dtype")),
    )
    return emit.results(out=made)


@translates("sequence_mask")
def sequence_mask(emit: Emitter) -> Written:
    """Translate sequence_mask; by default it has as many columns as the largest length."""
    x, given = emit.input("X"), emit.optional("MaxLenTensor")
    tensors: dict[str, SSAValue] = {}
    if given is not None:
        tensors["max_len"] = given
    elif emit.attr("maxlen") < 0:
        tensors["max_len"] = emit(Max, x)
    made = emit.dynamic(emit.row.op, [x], row_attrs(emit.op, emit.row), tensors)
    return emit.results(Y=made[0])
