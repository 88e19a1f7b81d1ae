"""Normalization layers, and tensors divided by a norm, in JAX."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import norm as ops
from graphopt.ir.dialect.types import normalize_axis
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.ops.base import Array, compute_wide, wide
from graphopt.lowering.registry import lowers


@lowers(ops.BatchNorm)
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    bias: Array | None,
    momentum: float,
    epsilon: float,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
    data_format: str,
    sync: bool,
    replicas: Replicas,
) -> tuple[Array, ...]:
    values, channel = wide(x), ops.channel_axis(x.ndim, data_format)
    own_mean, own_variance = mean.astype(values.dtype), variance.astype(values.dtype)
    factors = None if scale is None else scale.astype(values.dtype)
    offsets = None if bias is None else bias.astype(values.dtype)
    fixed = use_global_stats or (is_test and not trainable_statistics)
    if fixed or sync:
        found = (own_mean, own_variance) if fixed else moments(values, channel, replicas)
        used_mean, used_variance = found
        out = _affine(values, used_mean, used_variance, factors, offsets, epsilon, channel)
    else:
        out, used_mean, used_variance = _normalised(values, factors, offsets, epsilon, channel)
    new_mean, new_variance = mean, variance
    if not fixed:
        new_mean = momentum * own_mean + (1 - momentum) * used_mean
        new_variance = momentum * own_variance + (1 - momentum) * used_variance
    inverse = lax.rsqrt(used_variance + epsilon)
    # statistics have no gradient; as in Paddle, the saved variance is the inverse deviation
    kept = ((new_mean, mean), (new_variance, variance), (used_mean, mean), (inverse, variance))
    return out.astype(x.dtype), *(lax.stop_gradient(s).astype(t.dtype) for s, t in kept)


def _affine(
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    channel: int,
) -> Array:
    """Compute (x - mean) / deviation * scale + bias for each channel."""
    inverse = lax.rsqrt(variance + epsilon)
    factor = inverse if scale is None else inverse * scale
    out = (x - along(mean, channel, x)) * along(factor, channel, x)
    return out if bias is None else out + along(bias, channel, x)


def _by_own(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, channel: int
) -> tuple[Array, Array, Array]:
    """Apply `_affine` with the statistics of x; return these, too, without gradient."""
    mean, variance = moments(x, channel, ALONE)
    return _affine(x, mean, variance, scale, bias, epsilon, channel), mean, variance


def _by_own_forward(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, channel: int
) -> tuple[tuple[Array, Array, Array], Any]:
    out, mean, variance = _by_own(x, scale, bias, epsilon, channel)
    return (out, mean, variance), (x, scale, bias, mean, variance)


def _by_own_backward(
    epsilon: float, channel: int, saved: Any, cotangents: tuple[Array, Array, Array]
) -> tuple[Array, Array | None, Array | None]:
    x, scale, bias, mean, variance = saved
    cotangent, axes = cotangents[0], tuple(axis for axis in range(x.ndim) if axis != channel)
    count = math.prod(x.shape[axis] for axis in axes)
    inverse = lax.rsqrt(variance + epsilon)
    standard = (x - along(mean, channel, x)) * along(inverse, channel, x)
    plain, weighted = jnp.sum(cotangent, axes), jnp.sum(cotangent * standard, axes)
    means = along(plain / count, channel, x) + standard * along(weighted / count, channel, x)
    factor = inverse if scale is None else inverse * scale
    image = (cotangent - means) * along(factor, channel, x)
    return image, None if scale is None else weighted, None if bias is None else plain


# two sums over x; JAX's derivative has a sum for each use of x
_normalised: Any = jax.custom_vjp(_by_own, nondiff_argnums=(3, 4))


_normalised.defvjp(_by_own_forward, _by_own_backward)


def moments(x: Array, channel: int, replicas: Replicas) -> tuple[Array, Array]:
    """Compute mean and biased variance of each channel over the rows of all replicas.

    This takes two passes, because the difference of two large sums of squares has no correct
    digits.
    """
    axes = tuple(axis for axis in range(x.ndim) if axis != channel)
    count = replicas.sum(math.prod(x.shape[axis] for axis in axes))
    mean = replicas.sum(jnp.sum(x, axes)) / count
    squares = lax.square(x - along(mean, channel, x))
    return mean, replicas.sum(jnp.sum(squares, axes)) / count


def along(vector: Array, axis: int, x: Array) -> Array:
    """Reshape a vector to broadcast along one axis of x."""
    return lax.expand_dims(vector, [i for i in range(x.ndim) if i != axis])


@lowers(ops.LayerNorm)
def layer_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, begin_norm_axis: int
) -> tuple[Array, Array, Array]:
    values, normalized = wide(x), x.shape[begin_norm_axis:]
    vectors = (
        None if v is None else v.astype(values.dtype).reshape(normalized) for v in (scale, bias)
    )
    out, mean, variance = _standardised(values, *vectors, epsilon, len(normalized))
    rows = math.prod(x.shape[:begin_norm_axis])
    return out.astype(x.dtype), mean.reshape(rows), variance.reshape(rows)


def _by_rows(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, rank: int
) -> tuple[Array, Array, Array]:
    """Normalize x along the last `rank` axes, with scale and bias; return mean and variance, too.

    The reduced axes stay, with size 1. The scale and the bias have the shape of a row.
    """
    axes = tuple(range(x.ndim - rank, x.ndim))
    mean = jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean(lax.square(x - mean), axes, keepdims=True)
    out = (x - mean) * lax.rsqrt(variance + epsilon)
    if scale is not None:
        out *= scale
    if bias is not None:
        out += bias
    return out, mean, variance


def _by_rows_forward(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, rank: int
) -> tuple[tuple[Array, Array, Array], Any]:
    out, mean, variance = _by_rows(x, scale, bias, epsilon, rank)
    return (out, mean, variance), (x, scale, bias, mean, variance)


def _by_rows_backward(
    epsilon: float, rank: int, saved: Any, cotangents: tuple[Array, Array, Array]
) -> tuple[Array, Array | None, Array | None]:
    x, scale, bias, mean, variance = saved
    cotangent, of_mean, of_variance = cotangents
    rows, axes = tuple(range(x.ndim - rank)), tuple(range(x.ndim - rank, x.ndim))
    count = math.prod(x.shape[axis] for axis in axes)
    inverse, away = lax.rsqrt(variance + epsilon), x - mean
    scaled = cotangent if scale is None else cotangent * scale
    plain = jnp.sum(scaled, axes, keepdims=True)
    weighted = jnp.sum(scaled * away, axes, keepdims=True) * inverse**3
    image = scaled * inverse + away * ((2 * of_variance - weighted) / count)
    image += (of_mean - plain * inverse) / count
    of_scale = None if scale is None else jnp.sum(cotangent * (away * inverse), rows)
    return image, of_scale, None if bias is None else jnp.sum(cotangent, rows)


# it saves only x, and needs half of the loops of JAX's derivative
_standardised: Any = jax.custom_vjp(_by_rows, nondiff_argnums=(3, 4))


_standardised.defvjp(_by_rows_forward, _by_rows_backward)


@lowers(ops.GroupNorm)
def group_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> tuple[Array, Array, Array]:
    channel = ops.channel_axis(x.ndim, data_layout)
    values = jnp.moveaxis(wide(x), channel, 1)
    rows = values.shape[0]
    grouped = values.reshape(rows, groups, math.prod(values.shape[1:]) // groups)
    normal, mean, variance = _standardised(grouped, None, None, epsilon, 1)
    out = jnp.moveaxis(normal.reshape(values.shape), 1, channel)
    if scale is not None:
        out *= along(scale.astype(out.dtype), channel, x)
    if bias is not None:
        out += along(bias.astype(out.dtype), channel, x)
    return out.astype(x.dtype), *(lax.stop_gradient(s[..., 0]) for s in (mean, variance))


@lowers(ops.InstanceNorm)
def instance_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    out, mean, variance = group_norm(x, scale, bias, epsilon, x.shape[1], "NCHW")
    # as in Paddle, the saved variance is the inverse deviation
    return out, mean.reshape(-1), lax.rsqrt(variance + epsilon).reshape(-1)


@lowers(ops.SpectralNorm)
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


@lowers(ops.Renorm)
@compute_wide
def renorm(x: Array, p: float, axis: int, max_norm: float) -> Array:
    at = normalize_axis(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i != at)
    total = jnp.sum(jnp.abs(x) ** p, others, keepdims=True)
    # the root has no derivative at 0; short vectors stay unchanged
    long = total ** (1 / p) > max_norm
    length = jnp.where(long, total, 1) ** (1 / p)
    return x * jnp.where(long, max_norm / length, 1)


@jax.custom_vjp
def _of_length_one(
    x: Array, size: Array, total: Array, square: Array, epsilon: Array
) -> tuple[Array, Array, Array]:
    means, scales = total / size, jnp.sqrt(size / square)
    return (x - means) * scales, means, scales


def _forward(
    x: Array, size: Array, total: Array, square: Array, epsilon: Array
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array, Array]]:
    made = _of_length_one(x, size, total, square, epsilon)
    return made, (x, made[1], made[2], epsilon)


def _backward(
    saved: tuple[Array, Array, Array, Array], cotangents: tuple[Array, Array, Array]
) -> tuple[Array, ...]:
    x, means, scales, epsilon = saved
    rows = tuple(range(x.ndim - 1))
    count = jnp.full_like(means, x.size // max(x.shape[-1], 1))
    squares = jnp.sum((x - means) ** 2, rows) + count * epsilon
    return cotangents[0] * scales, count, jnp.sum(x, rows), squares, jnp.zeros_like(epsilon)


_of_length_one.defvjp(_forward, _backward)


@lowers(ops.DataNorm)
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
    axis = ops.channel_axis(x.ndim, data_layout)
    last = jnp.moveaxis(wide(x), axis, -1)
    kept = np.asarray(epsilon, last.dtype)
    sums = (wide(value) for value in (batch_size, batch_sum, batch_square_sum))
    out, means, scales = _of_length_one(last, *sums, jnp.asarray(kept))
    if scale_w is not None:
        out = out * scale_w
    if bias is not None:
        out = out + bias
    out = jnp.moveaxis(out, -1, axis).astype(x.dtype)
    return out, means.astype(x.dtype), scales.astype(x.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _of_counts(x: Array, cvm: Array, use_cvm: bool) -> Array:
    if not use_cvm:
        return x[:, 2:]
    counts = jnp.log(x[:, :2] + 1)
    return jnp.concatenate([counts[:, :1], counts[:, 1:] - counts[:, :1], x[:, 2:]], 1)


def _counts_forward(x: Array, cvm: Array, use_cvm: bool) -> tuple[Array, Array]:
    return _of_counts(x, cvm, use_cvm), cvm


def _counts_backward(use_cvm: bool, cvm: Array, cotangent: Array) -> tuple[Array, Array]:
    rest = cotangent[:, 2:] if use_cvm else cotangent
    return jnp.concatenate([cvm, rest], 1), jnp.zeros_like(cvm)


_of_counts.defvjp(_counts_forward, _counts_backward)


@lowers(ops.Cvm)
@compute_wide
def cvm(x: Array, cvm: Array, use_cvm: bool) -> Array:
    return _of_counts(x, cvm, use_cvm)
