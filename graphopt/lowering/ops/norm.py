"""Normalisation layers in JAX."""

from __future__ import annotations

import math
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.norm import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    channel_axis,
)
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(BatchNorm)
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
    values, channel = wide(x), channel_axis(x.ndim, data_format)
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
    # statistics pass no gradient on; the saved variance is the inverse deviation, as in Paddle
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
    """x less its mean, over its deviation, times the scale, plus the bias, for each channel."""
    inverse = lax.rsqrt(variance + epsilon)
    factor = inverse if scale is None else inverse * scale
    out = (x - along(mean, channel, x)) * along(factor, channel, x)
    return out if bias is None else out + along(bias, channel, x)


def _by_own(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, channel: int
) -> tuple[Array, Array, Array]:
    """`_affine` with the statistics of x, and these statistics without gradient."""
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


# two sums over x, where the derivative that JAX would make takes one for each use of x
_normalised: Any = jax.custom_vjp(_by_own, nondiff_argnums=(3, 4))
_normalised.defvjp(_by_own_forward, _by_own_backward)


def moments(x: Array, channel: int, replicas: Replicas) -> tuple[Array, Array]:
    """Mean and biased variance of each channel over the rows of all replicas.

    In two passes, because the difference of two large sums of squares has no correct digits.
    """
    axes = tuple(axis for axis in range(x.ndim) if axis != channel)
    count = replicas.sum(math.prod(x.shape[axis] for axis in axes))
    mean = replicas.sum(jnp.sum(x, axes)) / count
    squares = lax.square(x - along(mean, channel, x))
    return mean, replicas.sum(jnp.sum(squares, axes)) / count


def along(vector: Array, axis: int, x: Array) -> Array:
    """A vector shaped to broadcast along one axis of x."""
    return lax.expand_dims(vector, [i for i in range(x.ndim) if i != axis])


@lowers(LayerNorm)
def layer_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, begin_norm_axis: int
) -> tuple[Array, Array, Array]:
    values, normalized = wide(x), x.shape[begin_norm_axis:]
    axes = tuple(range(begin_norm_axis, x.ndim))
    mean = jnp.mean(values, axes, keepdims=True)
    variance = jnp.mean(lax.square(values - mean), axes, keepdims=True)
    out = (values - mean) * lax.rsqrt(variance + epsilon)
    if scale is not None:
        out *= scale.astype(out.dtype).reshape(normalized)
    if bias is not None:
        out += bias.astype(out.dtype).reshape(normalized)
    rows = math.prod(x.shape[:begin_norm_axis])
    return out.astype(x.dtype), mean.reshape(rows), variance.reshape(rows)


@lowers(GroupNorm)
def group_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> tuple[Array, Array, Array]:
    channel = channel_axis(x.ndim, data_layout)
    values = jnp.moveaxis(wide(x), channel, 1)
    rows = values.shape[0]
    grouped = values.reshape(rows, groups, math.prod(values.shape[1:]) // groups)
    normal, mean, variance = _standardised(grouped, epsilon)
    out = jnp.moveaxis(normal.reshape(values.shape), 1, channel)
    if scale is not None:
        out *= along(scale.astype(out.dtype), channel, x)
    if bias is not None:
        out += along(bias.astype(out.dtype), channel, x)
    return out.astype(x.dtype), lax.stop_gradient(mean), lax.stop_gradient(variance)


def _standardised(x: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """x less its mean, over its deviation, along the last axis; the mean and variance."""
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(lax.square(x - mean), -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + epsilon), mean[..., 0], variance[..., 0]


@lowers(InstanceNorm)
def instance_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    out, mean, variance = group_norm(x, scale, bias, epsilon, x.shape[1], "NCHW")
    # the saved variance is the inverse deviation, as in Paddle
    return out, mean.reshape(-1), lax.rsqrt(variance + epsilon).reshape(-1)
