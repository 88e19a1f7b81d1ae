"""Special functions, and numbers by their bits, signs and divisors, in JAX."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy import special

from graphopt.ir.dialect.ops.special import (
    I0,
    I1,
    BitwiseLeftShift,
    BitwiseRightShift,
    Copysign,
    Gammaincc,
    Gcd,
    Heaviside,
    I0e,
    I1e,
    Nextafter,
    Polygamma,
)
from graphopt.lowering.ops.base import Array, wide, widened
from graphopt.lowering.registry import lowers


@lowers(I0)
@widened
def i0(x: Array) -> Array:
    return special.i0(x)


@jax.custom_jvp
def _i0e(x: Array) -> Array:
    return special.i0e(x)


@_i0e.defjvp
def _i0e_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # at 0, Paddle takes the slope from the right
    (x,), out = primals, _i0e(primals[0])
    slope = special.i1e(x) - jnp.where(x >= 0, out, -out)
    return out, tangents[0] * slope


@lowers(I0e)
@widened
def i0e(x: Array) -> Array:
    return _i0e(x)


@lowers(I1)
@widened
def i1(x: Array) -> Array:
    return special.i1(x)


@lowers(I1e)
@widened
def i1e(x: Array) -> Array:
    return special.i1e(x)


@lowers(Polygamma)
@widened
def polygamma(x: Array, n: int) -> Array:
    if n == 0:
        return lax.digamma(x)
    return lax.polygamma(jnp.full_like(x, n), x)


@lowers(Gammaincc)
def gammaincc(x: Array, y: Array) -> Array:
    order, at = jnp.broadcast_arrays(lax.stop_gradient(wide(x)), wide(y))
    return lax.igammac(order, at).astype(x.dtype)


@lowers(Nextafter)
def nextafter(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(lax.stop_gradient(x), lax.stop_gradient(y))
    return lax.nextafter(x, y)


@lowers(Copysign)
def copysign(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, lax.stop_gradient(y))
    fixed = lax.stop_gradient(x)
    signed = jnp.where(jnp.signbit(fixed) == jnp.signbit(y), x, -x)
    return jnp.where(fixed == 0, lax.stop_gradient(signed), signed)


@lowers(Heaviside)
def heaviside(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    return jnp.where(x == 0, y, (x > 0).astype(y.dtype))


@lowers(Gcd)
def gcd(x: Array, y: Array) -> Array:
    return jnp.gcd(x, y)


def _unsigned(x: Array) -> Array:
    return lax.bitcast_convert_type(x, np.dtype(f"uint{8 * x.dtype.itemsize}"))


@lowers(BitwiseLeftShift)
def bitwise_left_shift(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    return lax.shift_left(x, y)


@lowers(BitwiseRightShift)
def bitwise_right_shift(x: Array, y: Array, is_arithmetic: bool) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    if is_arithmetic and jnp.issubdtype(x.dtype, jnp.signedinteger):
        return lax.shift_right_arithmetic(x, y)
    shifted: Array = lax.shift_right_logical(_unsigned(x), _unsigned(y))
    return jax.lax.bitcast_convert_type(shifted, x.dtype)
