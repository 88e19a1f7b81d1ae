"""Tensors divided by a norm or by gathered statistics in JAX."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.norm import channel_axis
from graphopt.ir.dialect.ops.rescale import DataNorm, Renorm, SpectralNorm
from graphopt.ir.dialect.types import normalize_axis
from graphopt.lowering.ops.base import Array, wide, widened
from graphopt.lowering.registry import lowers


@lowers(SpectralNorm)
def spectral_norm(
    weight: Array, u: Array, v: Array, dim: int, power_iters: int, eps: float
) -> Array:
    matrix = jnp.moveaxis(wide(weight), dim, 0)
    matrix = matrix.reshape(matrix.shape[0], -1)
    fixed, left, right = (lax.stop_gradient(wide(value)) for value in (matrix, u, v))
    for _ in range(power_iters):
        right = fixed.T @ left
        right = right / (jnp.linalg.norm(right) + eps)
        left = fixed @ right
        left = left / (jnp.linalg.norm(left) + eps)
    return (wide(weight) / jnp.vdot(left, matrix @ right)).astype(weight.dtype)


@lowers(Renorm)
@widened
def renorm(x: Array, p: float, axis: int, max_norm: float) -> Array:
    at = normalize_axis(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i != at)
    total = jnp.sum(jnp.abs(x) ** p, others, keepdims=True)
    # the root of 0 has no derivative, and short vectors are unchanged
    long = total ** (1 / p) > max_norm
    length = jnp.where(long, total, 1) ** (1 / p)
    return x * jnp.where(long, max_norm / length, 1)


@jax.custom_vjp
def _normalised(
    x: Array, size: Array, total: Array, square: Array, epsilon: Array
) -> tuple[Array, Array, Array]:
    means, scales = total / size, jnp.sqrt(size / square)
    return (x - means) * scales, means, scales


def _forward(
    x: Array, size: Array, total: Array, square: Array, epsilon: Array
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array, Array]]:
    made = _normalised(x, size, total, square, epsilon)
    return made, (x, made[1], made[2], epsilon)


def _backward(
    saved: tuple[Array, Array, Array, Array], cotangents: tuple[Array, Array, Array]
) -> tuple[Array, ...]:
    x, means, scales, epsilon = saved
    rows = tuple(range(x.ndim - 1))
    count = jnp.full_like(means, x.size // max(x.shape[-1], 1))
    squares = jnp.sum((x - means) ** 2, rows) + count * epsilon
    return cotangents[0] * scales, count, jnp.sum(x, rows), squares, jnp.zeros_like(epsilon)


_normalised.defvjp(_forward, _backward)


@lowers(DataNorm)
def data_norm(
    x: Array,
    batch_size: Array,
    batch_sum: Array,
    batch_square_sum: Array,
    scale_w: Array | None,
    bias: Array | None,
    epsilon: float,
    data_layout: str,
) -> tuple[Array, Array, Array]:
    axis = channel_axis(x.ndim, data_layout)
    last = jnp.moveaxis(wide(x), axis, -1)
    kept = np.asarray(epsilon, last.dtype)
    sums = (wide(value) for value in (batch_size, batch_sum, batch_square_sum))
    out, means, scales = _normalised(last, *sums, jnp.asarray(kept))
    if scale_w is not None:
        out = out * scale_w
    if bias is not None:
        out = out + bias
    out = jnp.moveaxis(out, -1, axis).astype(x.dtype)
    return out, means.astype(x.dtype), scales.astype(x.dtype)
