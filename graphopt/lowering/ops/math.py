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
from graphopt.lowering.registry import lower_each, lowers

lower_each(
    {
        ops.Add: lambda x, y: x + y,
        ops.Subtract: lambda x, y: x - y,
        ops.Multiply: lambda x, y: x * y,
        ops.Maximum: lambda x, y: jnp.maximum(x, y),
        ops.Minimum: lambda x, y: jnp.minimum(x, y),
        ops.Remainder: lambda x, y: jnp.remainder(x, y),
        ops.Fmax: lambda x, y: jnp.where((x >= y) | jnp.isnan(y), x, y),
        ops.Fmin: lambda x, y: jnp.where((x <= y) | jnp.isnan(y), x, y),
        ops.Equal: lambda x, y: x == y,
        ops.NotEqual: lambda x, y: x != y,
        ops.LessThan: lambda x, y: x < y,
        ops.LessEqual: lambda x, y: x <= y,
        ops.GreaterThan: lambda x, y: x > y,
        ops.GreaterEqual: lambda x, y: x >= y,
        ops.LogicalAnd: lambda x, y: jnp.logical_and(x, y),
        ops.LogicalOr: lambda x, y: jnp.logical_or(x, y),
        ops.LogicalNot: lambda x: jnp.logical_not(x),
        # XLA would rewrite x / exp(y) as x * exp(-y), and exp(x) * exp(y) as exp(x + y)
        ops.Exp: lambda x: apart(lax.exp(x)),
        ops.Log: lambda x: lax.log(apart(x)),
        ops.Sqrt: lambda x: apart(lax.sqrt(apart(x))),
        ops.Rsqrt: lambda x: lax.rsqrt(apart(x)),
        ops.Erf: lambda x: lax.erf(x),
        # unlike lax.square's, its derivative does not double x
        ops.Square: lambda x: x * x,
        ops.Clip: lambda x, min, max: limit(x, min, max),
        ops.AddN: lambda inputs: reduce(operator.add, map(wide, inputs)).astype(inputs[0].dtype),
        ops.Where: lambda condition, x, y: jnp.where(condition, x, y),
    }
)


@lowers(ops.Divide)
def divide(x: Array, y: Array) -> Array:
    if jnp.issubdtype(x.dtype, jnp.integer):
        return lax.div(*jnp.broadcast_arrays(x, y))  # `//` would round down
    return quotient(apart(x), apart(y))


@lowers(ops.ElementwisePow)
def elementwise_pow(x: Array, y: Array) -> Array:
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.power(apart(x), apart(y))
    # as for a truncated quotient, a negative power is 0, except of 1 and -1
    return jnp.where((y < 0) & (jnp.abs(x) > 1), 0, jnp.power(x, jnp.abs(y)))


@lowers(ops.FloorDivide)
def floor_divide(x: Array, y: Array) -> Array:
    down = jnp.floor_divide(x, y)
    # a zero result has the sign of the quotient
    return jnp.where(down == 0, lax.stop_gradient(x / y) * 0, down) if is_floating(x) else down


@lowers(ops.Abs)
def abs_(x: Array) -> Array:
    if is_floating(x):  # jnp.abs has gradient 1 at 0, and -1 for NaN
        sign = jnp.where(x > 0, 1, jnp.where(x < 0, -1, x))  # TPU kernels have no lax.sign
        return x * lax.stop_gradient(sign)
    magnitude = jnp.abs(x)
    return jnp.where(x == 0, jnp.zeros((), magnitude.dtype), magnitude)


@lowers(ops.Pow)
def pow_(x: Array, factor: float) -> Array:
    if jnp.issubdtype(x.dtype, jnp.integer):
        return elementwise_pow(x, jnp.full_like(x, int(factor)))
    # small integer powers are products, whose gradient is also defined for x <= 0
    if factor == int(factor) and abs(factor) <= 64:
        return lax.integer_pow(apart(x), int(factor))
    return jnp.power(apart(x), factor)


@lowers(ops.Scale)
@compute_wide
def scale_(x: Array, scale: float, bias: float, bias_after_scale: bool) -> Array:
    offset = constant(bias, x.dtype)
    number = hide_value if is_floating(x) and abs(scale) != 1 else constant
    factor = number(scale, x.dtype)
    if offset == 0:
        return x * factor  # XLA drops + 0, too; it would change -0 to 0
    if is_floating(x):
        offset = hide_value(bias, x.dtype)
    return x * factor + offset if bias_after_scale else (x + offset) * factor


@lowers(ops.Cast)
def cast(x: Array, dtype: DType) -> Array:
    if jnp.iscomplexobj(x) and not dtype.is_complex:
        x = lax.real(x)
    if is_floating(x) and dtype.endswith("fnuz"):
        # these types have no -0; some XLA emitters convert it to NaN
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
    """Convert floats to integers as `convert_as_x86` of `ir/dtypes.py`; XLA would saturate them."""
    x, whole = wide(x), dtype.cut_in  # a narrow float has no such bound
    bound = np.asarray(2.0 ** (8 * whole.itemsize - 1), x.dtype)
    held = x < bound  # below the range, XLA saturates to the least integer
    found = jnp.where(held, x.astype(whole), np.iinfo(whole).min).astype(dtype.numpy)
    if dtype == "uint64":
        is_large = (x >= bound) & (x < 2 * bound)
        found = jnp.where(is_large, x.astype(dtype.numpy), found)
    return found
