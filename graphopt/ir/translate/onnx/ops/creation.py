"""Constants, ranges and tensors of one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import Arange, Eye, Full
from graphopt.ir.dialect.ops.math import Cast, Clip, ViewDtype
from graphopt.ir.dialect.ops.rearrange import TriangleOf
from graphopt.ir.dtypes import DType
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype
from graphopt.ir.translate.onnx.registry import reads


@reads("Constant")
def constant(
    emit: OnnxEmitter,
    *,
    value: Sequence[Any] = (),
    value_dtype: str = "",
    value_shape: Sequence[int] = (),
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> SSAValue:
    if value_dtype:
        return emit.constant(value, DType(value_dtype), value_shape)
    if value_int is not None or value_ints is not None:
        return _list_numbers(emit, value_int, value_ints, "int64")
    return _list_numbers(emit, value_float, value_floats, "float32")


def _list_numbers(emit: OnnxEmitter, one: Any, many: Sequence[Any] | None, dtype: str) -> SSAValue:
    if many is not None:
        return emit.constant(many, dtype, (len(many),))
    return emit.constant([one], dtype, ())


@reads("ConstantOfShape")
def constant_of_shape(
    emit: OnnxEmitter,
    sizes: SSAValue,
    *,
    value: Sequence[Any] = (0.0,),
    value_dtype: str = "float32",
    value_shape: Sequence[int] = (1,),
) -> SSAValue:
    attrs = {"value": float(value[0]), "dtype": DType(value_dtype)}
    return emit.dynamic(Full, [], attrs, {"shape": sizes})[0]


@reads("Range")
def range_(emit: OnnxEmitter, start: SSAValue, limit: SSAValue, delta: SSAValue) -> SSAValue:
    kind = dtype(start)
    given = {"start": start, "end": limit, "step": delta}
    known = {name: emit.known_elements(value) for name, value in given.items()}
    if all(numbers is not None for numbers in known.values()):
        first, last, step = (np.asarray(n, kind.numpy).reshape(()) for n in known.values())
        if not step:
            raise emit.refuse("the step is 0")
        count = max(int(np.ceil((last - first) / step)), 0)
        if count <= 64:
            return emit.constant([first + i * step for i in range(count)], kind, (count,))
    return emit.dynamic(Arange, [], {"dtype": kind}, given)[0]


@reads("EyeLike")
def eye_like(emit: OnnxEmitter, x: SSAValue, *, dtype: int | None = None, k: int = 0) -> SSAValue:
    rows, columns = emit.sizes(x)
    kind = emit_dtype(emit, dtype, x)
    if k == 0:
        return emit(Eye, num_rows=rows, num_columns=columns, dtype=kind)
    emit.check_bound("numbers of a diagonal beside the main one", rows, columns)
    return emit.constant(np.eye(rows, columns, k).astype(int), kind)


def emit_dtype(emit: OnnxEmitter, number: int | None, like: SSAValue) -> DType:
    """Map an element type of ONNX to its dtype; None gives the dtype of `like`."""
    return dtype(like) if number is None else emit.element_type(number)


@reads("Cast")
def cast(
    emit: OnnxEmitter, x: SSAValue, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> SSAValue:
    return convert(emit, x, emit.element_type(to), saturate, round_mode)


@reads("CastLike")
def cast_like(
    emit: OnnxEmitter, x: SSAValue, like: SSAValue, *, saturate: int = 1, round_mode: str = "up"
) -> SSAValue:
    return convert(emit, x, dtype(like), saturate, round_mode)


# The largest number of each 8-bit float, to which larger numbers and infinity are clipped.
LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}


def convert(
    emit: OnnxEmitter, x: SSAValue, kind: DType, saturate: int = 1, round_mode: str = "up"
) -> SSAValue:
    """Cast `x`; numbers beyond an 8-bit float become its largest one, or nan and infinity."""
    if kind == "float8_e8m0fnu" and dtype(x) != kind:
        # NumPy and XLA disagree on numbers that this dtype cannot represent
        raise emit.refuse(f"numbers as powers of two, rounded {round_mode}; use another type")
    if saturate and kind in LARGEST and dtype(x) != kind:
        x = x if dtype(x).is_floating else emit.cast(x, "float32")
        x = emit(Clip, x, min=-LARGEST[kind], max=LARGEST[kind])
    return emit.cast(x, kind)


@reads("BitCast")
def bit_cast(emit: OnnxEmitter, x: SSAValue, *, to: int) -> SSAValue:
    kind = emit.element_type(to)
    if kind.numpy.itemsize != dtype(x).numpy.itemsize:
        raise emit.refuse(f"{dtype(x)} and {kind} have different numbers of bits")
    return emit(ViewDtype, x, dtype=kind)


@reads("Optional")
def optional(emit: OnnxEmitter, x: SSAValue | None = None) -> SSAValue:
    if x is None:
        raise emit.refuse("the optional value is absent; remove the nodes that read the value")
    return x


@reads("OptionalHasElement")
def optional_has_element(emit: OnnxEmitter, x: SSAValue | None = None) -> SSAValue:
    return emit.constant([x is not None], "bool", ())


@reads("OptionalGetElement")
def optional_get_element(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    return x


@reads("Trilu")
def trilu(emit: OnnxEmitter, x: SSAValue, k: SSAValue | None = None, *, upper: int = 1) -> SSAValue:
    at = 0 if k is None else int(emit.numbers(k, "diagonal")[0])
    if dtype(x) == "bool":
        out = emit(TriangleOf, emit(Cast, x, dtype="int32"), diagonal=at, lower=not upper)
        return emit.cast(out, "bool")
    return emit(TriangleOf, x, diagonal=at, lower=not upper)
