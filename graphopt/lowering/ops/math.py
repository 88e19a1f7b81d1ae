"""Elementwise arithmetic, comparisons and logic in JAX."""

from __future__ import annotations

import operator
from functools import reduce

import ml_dtypes
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import math as ops
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.base import (
    Array,
    apart,
    compute_wide,
    constant,
    hide_value,
    is_floating,
    limit,
    quotient,
    wide,
)
from graphopt.lowering.registry import lowers


@lowers(ops.Add)
def add(x: Array, y: Array) -> Array:
    return x + y


@lowers(ops.Subtract)
def subtract(x: Array, y: Array) -> Array:
    return x - y


@lowers(ops.Multiply)
def multiply(x: Array, y: Array) -> Array:
    return x * y


@lowers(ops.Divide)
def divide(x: Array, y: Array) -> Array:
    if jnp.issubdtype(x.dtype, jnp.integer):
        return lax.div(*jnp.broadcast_arrays(x, y))  # towards zero, where `//` goes down
    return quotient(apart(x), apart(y))


@lowers(ops.Maximum)
def maximum(x: Array, y: Array) -> Array:
    return jnp.maximum(x, y)


@lowers(ops.Minimum)
def minimum(x: Array, y: Array) -> Array:
    return jnp.minimum(x, y)


@lowers(ops.ElementwisePow)
def elementwise_pow(x: Array, y: Array) -> Array:
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.power(apart(x), apart(y))
    # a negative power of an integer is cut to 0, except of 1 and -1
    return jnp.where((y < 0) & (jnp.abs(x) > 1), 0, jnp.power(x, jnp.abs(y)))


@lowers(ops.FloorDivide)
def floor_divide(x: Array, y: Array) -> Array:
    down = jnp.floor_divide(x, y)
    # a zero has the sign of the quotient
    return jnp.where(down == 0, lax.stop_gradient(x / y) * 0, down) if is_floating(x) else down


@lowers(ops.Remainder)
def remainder(x: Array, y: Array) -> Array:
    return jnp.remainder(x, y)


@lowers(ops.Fmax)
def fmax(x: Array, y: Array) -> Array:
    return jnp.where((x >= y) | jnp.isnan(y), x, y)


@lowers(ops.Fmin)
def fmin(x: Array, y: Array) -> Array:
    return jnp.where((x <= y) | jnp.isnan(y), x, y)


@lowers(ops.Equal)
def equal(x: Array, y: Array) -> Array:
    return x == y


@lowers(ops.NotEqual)
def not_equal(x: Array, y: Array) -> Array:
    return x != y


@lowers(ops.LessThan)
def less_than(x: Array, y: Array) -> Array:
    return x < y


@lowers(ops.LessEqual)
def less_equal(x: Array, y: Array) -> Array:
    return x <= y


@lowers(ops.GreaterThan)
def greater_than(x: Array, y: Array) -> Array:
    return x > y


@lowers(ops.GreaterEqual)
def greater_equal(x: Array, y: Array) -> Array:
    return x >= y


@lowers(ops.LogicalAnd)
def logical_and(x: Array, y: Array) -> Array:
    return jnp.logical_and(x, y)


@lowers(ops.LogicalOr)
def logical_or(x: Array, y: Array) -> Array:
    return jnp.logical_or(x, y)


@lowers(ops.LogicalNot)
def logical_not(x: Array) -> Array:
    return jnp.logical_not(x)


@lowers(ops.Exp)
def exp(x: Array) -> Array:
    return apart(lax.exp(x))  # else x / exp(y) is x * exp(-y), and exp(x) * exp(y) exp(x + y)


@lowers(ops.Log)
def log(x: Array) -> Array:
    return lax.log(apart(x))


@lowers(ops.Sqrt)
def sqrt(x: Array) -> Array:
    return apart(lax.sqrt(apart(x)))


@lowers(ops.Rsqrt)
def rsqrt(x: Array) -> Array:
    return lax.rsqrt(apart(x))


@lowers(ops.Erf)
def erf(x: Array) -> Array:
    return lax.erf(x)


@lowers(ops.Square)
def square(x: Array) -> Array:
    return x * x  # of which the derivative does not double x, as that of lax.square


@lowers(ops.Abs)
def abs_(x: Array) -> Array:
    magnitude = jnp.abs(x)
    # jnp.abs has the gradient 1 at 0
    return jnp.where(x == 0, jnp.zeros((), magnitude.dtype), magnitude)


@lowers(ops.Pow)
def pow_(x: Array, factor: float) -> Array:
    if jnp.issubdtype(x.dtype, jnp.integer):
        return elementwise_pow(x, jnp.full_like(x, int(factor)))
    # small whole powers are products, and have a gradient at 0 and below
    if factor == int(factor) and abs(factor) <= 64:
        return lax.integer_pow(apart(x), int(factor))
    return jnp.power(apart(x), factor)


@lowers(ops.Clip)
def clip(x: Array, min: float, max: float) -> Array:
    return limit(x, min, max)


@lowers(ops.Scale)
@compute_wide
def scale_(x: Array, scale: float, bias: float, bias_after_scale: bool) -> Array:
    offset = constant(bias, x.dtype)
    number = hide_value if is_floating(x) and abs(scale) != 1 else constant
    factor = number(scale, x.dtype)
    if offset == 0:
        return x * factor  # XLA adds no zero either, and an added one would make 0 of -0
    if is_floating(x):
        offset = hide_value(bias, x.dtype)
    return x * factor + offset if bias_after_scale else (x + offset) * factor


@lowers(ops.Cast)
def cast(x: Array, dtype: DType) -> Array:
    if jnp.iscomplexobj(x) and not dtype.is_complex:
        x = lax.real(x)
    if is_floating(x) and dtype.endswith("fnuz"):
        # these have no -0, for which some emitters of XLA give nan
        least = ml_dtypes.finfo(dtype.numpy).smallest_subnormal
        x = jnp.where(jnp.abs(x) <= float(least) / 2, 0, x)
    return _cut(x, dtype) if is_floating(x) and dtype.is_whole else x.astype(dtype.numpy)


@lowers(ops.ViewDtype)
def view_dtype(x: Array, dtype: DType) -> Array:
    x = x.astype(np.uint8) if x.dtype == np.bool_ else x
    wanted = np.dtype(np.uint8) if dtype == "bool" else dtype.numpy
    longer = wanted.itemsize // x.dtype.itemsize
    if longer > 1:
        x = x.reshape(*x.shape[:-1], x.shape[-1] // longer, longer)
    out = lax.bitcast_convert_type(x, wanted)
    if wanted.itemsize < x.dtype.itemsize:
        out = out.reshape(*x.shape[:-1], -1)
    return out != 0 if dtype == "bool" else out


def _cut(x: Array, dtype: DType) -> Array:
    """Floats as integers like `convert_as_x86` of `ir/dtypes.py`, where XLA keeps them in range."""
    x, whole = wide(x), dtype.cut_in  # a narrow float has no such bound
    bound = np.asarray(2.0 ** (8 * whole.itemsize - 1), x.dtype)
    held = x < bound  # below the range XLA has the least number, too
    found = jnp.where(held, x.astype(whole), np.iinfo(whole).min).astype(dtype.numpy)
    if dtype == "uint64":
        is_large = (x >= bound) & (x < 2 * bound)
        found = jnp.where(is_large, x.astype(dtype.numpy), found)
    return found


@lowers(ops.AddN)
def add_n(inputs: tuple[Array, ...]) -> Array:
    return reduce(operator.add, map(wide, inputs)).astype(inputs[0].dtype)


@lowers(ops.Where)
def where(condition: Array, x: Array, y: Array) -> Array:
    return jnp.where(condition, x, y)
