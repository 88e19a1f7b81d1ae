"""Complex numbers and their parts in JAX."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.complex import Angle, AsComplex, AsReal, Complex, Conj, Imag, Real
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(Real)
def real(x: Array) -> Array:
    return lax.real(x) if jnp.iscomplexobj(x) else x


@lowers(Imag)
def imag(x: Array) -> Array:
    return lax.imag(x) if jnp.iscomplexobj(x) else jnp.zeros_like(x)


@lowers(Angle)
def angle(x: Array) -> Array:
    if jnp.iscomplexobj(x):
        return lax.atan2(lax.imag(x), lax.real(x))
    return jnp.where(x < 0, jnp.asarray(jnp.pi, x.dtype), x * 0)


@lowers(Conj)
def conj(x: Array) -> Array:
    return lax.conj(x) if jnp.iscomplexobj(x) else x


@lowers(Complex)
def complex(real: Array, imag: Array) -> Array:
    return lax.complex(*jnp.broadcast_arrays(wide(real), wide(imag)))


@lowers(AsComplex)
def as_complex(x: Array) -> Array:
    x = wide(x)
    return lax.complex(x[..., 0], x[..., 1])


@lowers(AsReal)
def as_real(x: Array) -> Array:
    return jnp.stack([lax.real(x), lax.imag(x)], -1)
