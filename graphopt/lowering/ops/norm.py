"""Normalisation layers in JAX."""

from __future__ import annotations

import math

from jax import lax
from jax import numpy as jnp

from graphopt.ir.ops.norm import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, channel_axis
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
    new_mean, new_variance = mean, variance
    if not (use_global_stats or (is_test and not trainable_statistics)):
        used_mean, used_variance = moments(values, channel, replicas if sync else ALONE)
        new_mean = momentum * own_mean + (1 - momentum) * used_mean
        new_variance = momentum * own_variance + (1 - momentum) * used_variance
    else:
        used_mean, used_variance = own_mean, own_variance
    inverse = lax.rsqrt(used_variance + epsilon)
    factor = inverse if scale is None else inverse * scale.astype(values.dtype)
    out = (values - along(used_mean, channel, x)) * along(factor, channel, x)
    if bias is not None:
        out += along(bias.astype(values.dtype), channel, x)
    # statistics pass no gradient on; the saved variance is the inverse deviation, as in Paddle
    kept = ((new_mean, mean), (new_variance, variance), (used_mean, mean), (inverse, variance))
    return out.astype(x.dtype), *(lax.stop_gradient(s).astype(t.dtype) for s, t in kept)


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
