"""Elementwise arithmetic, comparisons and logic."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import math as ops
from graphopt.ir.dtypes import DType, convert_as_x86
from graphopt.reference.derivatives import erf as error_function
from graphopt.reference.ops.activation import between
from graphopt.reference.registry import rule, rule_each
from graphopt.reference.tape import Array, TapeNode, value_of


def is_whole(x: Array) -> bool:
    """True for integers."""
    return x.dtype.kind in "iu"


rule_each(
    {
        ops.Add: lambda x, y: x + y,
        ops.Subtract: lambda x, y: x - y,
        ops.Multiply: lambda x, y: x * y,
        ops.Maximum: lambda x, y: np.maximum(x, y),
        ops.Minimum: lambda x, y: np.minimum(x, y),
        ops.Fmax: lambda x, y: np.where((x >= y) | np.isnan(y), x, y),
        ops.Fmin: lambda x, y: np.where((x <= y) | np.isnan(y), x, y),
        ops.Equal: lambda x, y: x == y,
        ops.NotEqual: lambda x, y: x != y,
        ops.LessThan: lambda x, y: x < y,
        ops.LessEqual: lambda x, y: x <= y,
        ops.GreaterThan: lambda x, y: x > y,
        ops.GreaterEqual: lambda x, y: x >= y,
        ops.LogicalAnd: lambda x, y: np.logical_and(x, y),
        ops.LogicalOr: lambda x, y: np.logical_or(x, y),
        ops.LogicalNot: lambda x: np.logical_not(x),
        ops.Exp: lambda x: np.exp(x),
        ops.Log: lambda x: np.log(x),
        ops.Sqrt: lambda x: np.sqrt(x),
        ops.Rsqrt: lambda x: 1.0 / np.sqrt(x),
        ops.Erf: lambda x: error_function(x),
        ops.Square: lambda x: x * x,
        ops.Abs: lambda x: np.abs(x),
        ops.AddN: lambda inputs: reduce(lambda a, b: a + b, inputs),
        ops.Where: lambda condition, x, y: np.where(condition, x, y),
    }
)


@rule(ops.Divide)
def divide(x: Array, y: Array) -> Array:
    if not is_whole(x):
        return x / y
    zero = y == 0
    down = x // np.where(zero, 1, y)
    inexact = down * y != x
    # truncate; unchecked division by zero gives -1, as in XLA
    towards_zero = down + (inexact & ((x < 0) != (y < 0)))
    return np.where(zero, -1, towards_zero)


@rule(ops.ElementwisePow)
def elementwise_pow(x: Array, y: Array) -> Array:
    if not is_whole(x):
        return _power(x, y)
    powers = np.power(x, np.maximum(y, 0))
    signs = np.where(y % 2 == 0, 1, x)
    return np.where(y >= 0, powers, np.where(np.abs(x) == 1, signs, 0))


@rule(ops.FloorDivide)
def floor_divide(x: Array, y: Array) -> Array:
    down = np.floor_divide(x, y)
    # as in the lowering, which divides by XLA's rules and then rounds down
    unchecked = np.where((x == 0) | (x.dtype.kind == "u"), -1, -2)
    return np.where(y == 0, unchecked, down) if is_whole(x) else down


@rule(ops.Remainder)
def remainder(x: Array, y: Array) -> Array:
    if is_whole(x):
        return np.remainder(x, y)
    plain = np.remainder(value_of(x), value_of(y))
    plain = np.where(plain == 0, np.copysign(plain, value_of(x)), plain)
    if not isinstance(x, TapeNode) and not isinstance(y, TapeNode):
        return plain
    # differentiate it as x - n * y
    endless = np.isinf(value_of(x))  # NumPy would return NaN
    ratio = np.floor_divide(value_of(x), value_of(y))
    whole = np.where(endless, value_of(x) / value_of(y), ratio)
    return x - whole * y + (plain - (value_of(x) - whole * value_of(y)))


@rule(ops.Pow)
def pow_(x: Array, factor: float) -> Array:
    if is_whole(x):
        return elementwise_pow(x, np.full_like(x, int(factor)))
    if factor in (0.0, 1.0, 2.0):
        return (np.ones_like(x), x, x * x)[int(factor)]
    return _power(x, factor)


def _power(x: Array, y: Any) -> Array:
    """Raise x to the power y as C does: NumPy takes the square root, nan at -inf and -0 at -0."""
    found, half = np.power(x, y), value_of(y) == 0.5
    return np.where(half & ((x == -np.inf) | (x == 0)), np.abs(x), found) if np.any(half) else found


@rule(ops.Clip)
def clip(x: Array, min: float, max: float, to: Any) -> Array:
    if is_whole(x):
        limits = np.iinfo(x.dtype)
        low, high = (int(np.clip(v, limits.min, limits.max)) for v in (min, max))
        return np.where(x <= low, low, np.where(x >= high, high, x))
    return between(x, to(min), to(max))


@rule(ops.Scale)
def scale_(x: Array, scale: float, bias: float, bias_after_scale: bool, to: Any) -> Array:
    if is_whole(x):
        dtype = DType(x.dtype.name)
        factor, offset = convert_as_x86(scale, dtype), convert_as_x86(bias, dtype)
    else:
        factor, offset = to(scale), to(bias)
    if bias == 0:
        return x * factor  # no addition, which would change -0
    return x * factor + offset if bias_after_scale else (x + offset) * factor


@rule(ops.Cast)
def cast(x: Array, dtype: DType, to: Any) -> Array:
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = np.real(x)
    if dtype == "bool":
        return x != 0
    if x.dtype.kind == "f" and not dtype.is_differentiable:
        return convert_as_x86(value_of(x), dtype)
    return to(x) if x.dtype.kind == "f" and dtype.is_floating else x
