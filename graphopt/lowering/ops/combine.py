"""Elements of several tensors combined in JAX."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.combine import Atan2, Kron, Lerp, Multiplex
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(Atan2)
def atan2(x: Array, y: Array) -> Array:
    return lax.atan2(*jnp.broadcast_arrays(wide(x), wide(y))).astype(x.dtype)


@lowers(Lerp)
def lerp(x: Array, y: Array, weight: Array) -> Array:
    start = wide(x)
    return (start + wide(weight) * (wide(y) - start)).astype(x.dtype)


@lowers(Multiplex)
def multiplex(inputs: tuple[Array, ...], index: Array) -> Array:
    rows = jnp.arange(inputs[0].shape[0])
    return jnp.stack(inputs).at[index.reshape(index.size), rows].get(mode="fill")


@lowers(Kron)
def kron(x: Array, y: Array) -> Array:
    return jnp.kron(x, y)
