"""Tensors of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops import creation as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.dtypes import DType, convert_as_x86
from graphopt.models.export.onnx.nodes import (
    Ints,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.registry import exports

SMALL = 64
"""The most elements of a constant that becomes an initializer."""


@exports(ops.Full, open=("shape", "value"))
def full(emit: Nodes, shape: Ints, value: float | Value, dtype: DType) -> Value:
    if isinstance(value, Value):
        number = emit.reshape(emit.cast(value, dtype), emit.ints([]))
    else:
        number = emit.number(value, dtype)
        if not isinstance(shape, Value) and math.prod(shape) <= SMALL:
            return emit.constant(np.full(shape, convert_as_x86(value, dtype)))
    return emit("Expand", number, emit.ints(shape))


@exports(ops.FullLike)
def full_like(emit: Nodes, x: Value, value: float, dtype: DType | None) -> Value:
    found = dtype or dtype_of(x)
    sizes = sizes_of(x)
    if UNKNOWN not in sizes:
        return full(emit, sizes, value, found)
    return emit("Expand", emit.number(value, found), emit.shape(x))


@exports(ops.AssignValue)
def assign_value(emit: Nodes, shape: Sequence[int], values: Sequence[float], dtype: DType) -> Value:
    return emit.constant(
        np.reshape([convert_as_x86(v, dtype) for v in values], shape).astype(dtype.numpy)
    )


@exports(ops.Arange, open=("start", "end", "step"))
def arange(
    emit: Nodes, start: float | Value, end: float | Value, step: float | Value, dtype: DType
) -> Value:
    bounds = (start, end, step)
    numbers = [bound for bound in bounds if not isinstance(bound, Value)]
    if len(numbers) == 3:
        length = ops.range_length(*numbers)
        return emit.constant((numbers[0] + numbers[2] * np.arange(length)).astype(dtype.numpy))
    if dtype not in ("int16", "int32", "int64", "float32", "float64"):
        raise NotInOnnx(f"ONNX's operator Range does not support {dtype}")
    values = [
        emit.reshape(emit.cast(bound, dtype), emit.ints([]))
        if isinstance(bound, Value)
        else emit.number(bound, dtype)
        for bound in bounds
    ]
    return emit("Range", *values)


@exports(ops.Linspace)
def linspace(emit: Nodes, start: float, stop: float, num: int, dtype: DType) -> Value:
    return emit.constant(np.linspace(start, stop, num).astype(dtype.numpy))


@exports(ops.Logspace)
def logspace(emit: Nodes, start: float, stop: float, num: int, base: float, dtype: DType) -> Value:
    return emit.constant(np.power(base, np.linspace(start, stop, num)).astype(dtype.numpy))


@exports(ops.Eye)
def eye(emit: Nodes, num_rows: int, num_columns: int, dtype: DType) -> Value:
    columns = num_rows if num_columns == -1 else num_columns
    return emit.constant(np.eye(num_rows, columns, dtype=dtype.numpy))
