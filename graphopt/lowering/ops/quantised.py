"""Quantization to whole steps of a scale, and back, in JAX."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import quantised as ops
from graphopt.lowering.ops.base import Array, constant, hide_value, wide
from graphopt.lowering.registry import lowers

LEAST = 1e-30
"""MORE is added to scales up to this bound, so that zeros stay zeros."""
MORE = 1e-6


@lowers(ops.QuantizeLinear)
def quantize_linear(x: Array, y: Array, steps: float, round_type: int) -> Array:
    values, scale = wide(x), wide(y)
    most = constant(steps, values.dtype)
    used = jnp.where(scale <= constant(LEAST, scale.dtype), scale + MORE, scale)
    factor = (1 / used) * hide_value(steps, scale.dtype)
    if round_type == ops.EVEN:
        whole = lax.round(factor * values, lax.RoundingMethod.TO_NEAREST_EVEN)
        kept = jnp.clip(whole, -most - 1, most)
    else:
        inside = jnp.maximum(jnp.minimum(values, scale), -scale)
        kept = lax.round(factor * inside, lax.RoundingMethod.AWAY_FROM_ZERO)
    return kept.astype(x.dtype)


@lowers(ops.DequantizeLinear)
def dequantize_linear(x: Array, y: Array, steps: float) -> Array:
    product = wide(x) * wide(y)
    return (product * hide_value(1.0 / steps, product.dtype)).astype(x.dtype)
