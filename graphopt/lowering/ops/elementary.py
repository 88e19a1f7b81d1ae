"""Elementary and special functions of elements in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy import special

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import elementary as ops
from graphopt.lowering.ops.base import Array, apart, compute_wide, is_floating, limit, wide
from graphopt.lowering.registry import Rule, lower_each, lowers


def logarithm(base: int) -> Callable[[Array], Array]:
    """Build the logarithm to a base; powers of the base give integers, as floor needs them.

    This holds for a quotient of natural logarithms that is rounded from float64. In float64 itself
    the powers are looked up.
    """
    last = math.ceil(math.log(np.finfo(np.float64).max, base)) - 1
    powers = np.array([float(Fraction(base) ** n) for n in range(-last, last + 1)])

    def rule(x: Array) -> Array:
        found = lax.log(apart(x).astype(np.float64)) / math.log(base)
        if x.dtype == np.float64:
            near = lax.stop_gradient(jnp.round(found))
            power = jnp.asarray(powers)[jnp.clip(near, -last, last).astype(np.int32) + last]
            is_power = (power == x) & (x > 0)  # the smallest powers may be flushed to 0
            found += jnp.where(is_power, near - lax.stop_gradient(found), 0)
        return found.astype(x.dtype)

    return rule


def whole(rounded: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Wrap a rounding so that it returns integers unchanged."""
    return lambda x: rounded(x) if is_floating(x) else x


def lgamma(x: Array) -> Array:
    """Compute lgamma in float64: XLA's series for float32 misses the zeros at 1 and 2 by 5e-7."""
    return lax.lgamma(x.astype(np.float64)).astype(x.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def polygamma(x: Array, n: int) -> Array:
    """Compute the n-th derivative of digamma, n >= 0; infinite at 0, where XLA has nan."""
    if n == 0:
        return jnp.where(x == 0, -1 / x, lax.digamma(x))
    exact = x.astype(np.float64)  # as in lgamma
    # XLA sums too few terms for large negative x, so use the reflection formula with 1 - x.
    positive = jnp.where(exact < 0, 1 - exact, exact)
    found = lax.polygamma(jnp.full_like(exact, n), positive)
    mirrored = (-1) ** n * found - math.pi * _cotangent(exact, n)
    is_pole = (exact <= 0) & (exact == lax.floor(exact))
    pole = jnp.full_like(exact, math.inf if n % 2 else -math.inf)
    return lax.select(is_pole, pole, jnp.where(exact < 0, mirrored, found)).astype(x.dtype)


@polygamma.defjvp
def _polygamma_jvp(n: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,) = primals
    return polygamma(x, n), tangents[0] * polygamma(x, n + 1)


def _cotangent(x: Array, n: int) -> Array:
    """Compute the n-th derivative of cot(pi x), a polynomial of cot(pi x)."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = polynomial.deriv() * [-math.pi, 0.0, -math.pi]
    at = 1 / jnp.tan(math.pi * (x - lax.round(x)))
    return jnp.polyval(jnp.asarray(polynomial.coef[::-1]), at)


@jax.custom_jvp
def _i0(x: Array) -> Array:
    return special.i0(x)


@_i0.defjvp
def _i0_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # JAX derives it from exp(-x) i0(x), whose slope jumps at 0
    (x,) = primals
    return _i0(x), tangents[0] * special.i1(x)


@jax.custom_jvp
def _i0e(x: Array) -> Array:
    return special.i0e(x)


@_i0e.defjvp
def _i0e_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # at 0, Paddle takes the slope from the right
    (x,), out = primals, _i0e(primals[0])
    slope = special.i1e(x) - jnp.where(x >= 0, out, -out)
    return out, tangents[0] * slope


FUNCTIONS: Mapping[type[PdOp], Callable[[Array], Array]] = {
    ops.Acos: lax.acos,
    ops.Acosh: lax.acosh,
    ops.Asin: lax.asin,
    ops.Asinh: lax.asinh,
    ops.Atan: lax.atan,
    ops.Atanh: lax.atanh,
    ops.Ceil: whole(lax.ceil),
    ops.Cos: lax.cos,
    ops.Cosh: lax.cosh,
    ops.Digamma: lambda x: polygamma(x, 0),
    ops.Erfinv: lax.erf_inv,
    ops.Expm1: lax.expm1,
    ops.Floor: whole(lax.floor),
    ops.I0: _i0,
    ops.I0e: _i0e,
    ops.I1: special.i1,
    ops.I1e: special.i1e,
    ops.Lgamma: lgamma,
    ops.Log1p: lambda x: lax.log1p(apart(x)),
    ops.Log2: logarithm(2),
    ops.Log10: logarithm(10),
    ops.Reciprocal: lambda x: 1 / apart(x),
    ops.Round: whole(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
    ops.Sign: lambda x: jnp.where(x == 0, jnp.zeros((), x.dtype), lax.sign(x)),  # 0 for -0, too
    ops.Sin: lax.sin,
    ops.Sinh: lax.sinh,
    ops.Tan: lax.tan,
    ops.Trunc: whole(lambda x: jnp.where(x < 0, lax.ceil(x), lax.floor(x))),
}


def _of_one(function: Callable[[Array], Array]) -> Rule:
    return compute_wide(lambda x: function(x))


lower_each({op_class: _of_one(function) for op_class, function in FUNCTIONS.items()})


@lowers(ops.Stanh)
@compute_wide
def stanh(x: Array, scale_a: float, scale_b: float) -> Array:
    return scale_b * lax.tanh(scale_a * x)


@lowers(ops.Logit)
@compute_wide
def logit(x: Array, eps: float) -> Array:
    if eps:
        x = limit(x, eps, 1 - eps)
    return lax.log(apart(x)) - lax.log1p(-x)


lowers(ops.Polygamma)(compute_wide(polygamma))


@lowers(ops.Gammaincc)
def gammaincc(x: Array, y: Array) -> Array:
    # In float64: XLA truncates the float32 series before it converges for a large order.
    operands = lax.stop_gradient(x).astype(np.float64), y.astype(np.float64)
    return lax.igammac(*jnp.broadcast_arrays(*operands)).astype(x.dtype)


@lowers(ops.Nextafter)
def nextafter(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(lax.stop_gradient(x), lax.stop_gradient(y))
    return lax.nextafter(x, y)


@lowers(ops.Copysign)
def copysign(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, lax.stop_gradient(y))
    if x.dtype == np.bool_:
        return x
    if not is_floating(x):
        return jnp.where((x < 0) == (y < 0), x, -x)
    fixed = lax.stop_gradient(x)
    signed = jnp.where(jnp.signbit(fixed) == jnp.signbit(y), x, -x)
    return jnp.where(fixed == 0, lax.stop_gradient(signed), signed)


@lowers(ops.Heaviside)
def heaviside(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    return jnp.where(x == 0, y, (x > 0).astype(y.dtype))


@lowers(ops.Gcd)
def gcd(x: Array, y: Array) -> Array:
    # unsigned, because the least integer has no absolute value, and the loop would not end
    sizes = (_to_unsigned(jnp.abs(value)) for value in (x, y))
    return jnp.gcd(*sizes).astype(x.dtype)


def _to_unsigned(x: Array) -> Array:
    return lax.bitcast_convert_type(x, np.dtype(f"uint{8 * x.dtype.itemsize}"))


@lowers(ops.BitwiseLeftShift)
def bitwise_left_shift(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    return lax.shift_left(x, y)


@lowers(ops.BitwiseRightShift)
def bitwise_right_shift(x: Array, y: Array, is_arithmetic: bool) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    if is_arithmetic and jnp.issubdtype(x.dtype, jnp.signedinteger):
        return lax.shift_right_arithmetic(x, y)
    shifted: Array = lax.shift_right_logical(_to_unsigned(x), _to_unsigned(y))
    return jax.lax.bitcast_convert_type(shifted, x.dtype)


@lowers(ops.Atan2)
def atan2(x: Array, y: Array) -> Array:
    return lax.atan2(*jnp.broadcast_arrays(wide(x), wide(y))).astype(x.dtype)


@lowers(ops.Lerp)
def lerp(x: Array, y: Array, weight: Array) -> Array:
    start = wide(x)
    return (start + wide(weight) * (wide(y) - start)).astype(x.dtype)
