"""Ops that make tensors of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import creation as ops
from graphopt.ir.dtypes import convert_as_x86
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def fill_tensor(shape: Sequence[int], value: float, dtype: Any) -> Array:
    """Make a tensor of one value.

    A constant is rounded to its dtype, whatever the precision of the computation.
    """
    if dtype.is_differentiable:
        return np.full(tuple(shape), round_values(value, dtype))
    return np.full(tuple(shape), convert_as_x86(value, dtype))


def round_values(values: Any, dtype: Any) -> Array:
    """Round floating-point or complex values to their dtype."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(values).astype(dtype.numpy)
    return rounded.astype(np.complex128 if dtype.is_complex else np.float64)


@rule(ops.Full)
def full(shape: Sequence[int], value: float, dtypes: Any) -> Array:
    return fill_tensor(shape, value, dtypes[0])


@rule(ops.FullLike)
def full_like(x: Array, value: float, dtypes: Any) -> Array:
    return fill_tensor(x.shape, value, dtypes[0])


@rule(ops.AssignValue)
def assign_value(shape: Sequence[int], values: Sequence[float], dtypes: Any) -> Array:
    if dtypes[0].is_differentiable:
        return round_values(values, dtypes[0]).reshape(tuple(shape))
    # One by one: a float among them would convert all to float64, which is exact only to 2**53.
    each = [convert_as_x86(value, dtypes[0]) for value in values]
    return np.array(each, dtypes[0].numpy).reshape(tuple(shape))


@rule(ops.Arange)
def arange(start: float, end: float, step: float, dtypes: Any) -> Array:
    count = max(math.ceil((end - start) / step), 0)
    if dtypes[0].is_differentiable:
        return start + step * np.arange(count)
    return int(start) + int(step) * np.arange(count)


@rule(ops.Linspace)
def linspace(start: float, stop: float, num: int, dtypes: Any) -> Array:
    points = np.linspace(start, stop, num)
    return points if dtypes[0].is_differentiable else np.trunc(points).astype(dtypes[0].numpy)


@rule(ops.Logspace)
def logspace(start: float, stop: float, num: int, base: float, dtypes: Any) -> Array:
    points = np.power(base, np.linspace(start, stop, num))
    return points if dtypes[0].is_differentiable else np.trunc(points).astype(dtypes[0].numpy)


@rule(ops.Eye)
def eye(num_rows: int, num_columns: int) -> Array:
    return np.eye(num_rows, num_rows if num_columns == -1 else num_columns)
