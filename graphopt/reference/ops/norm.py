"""Normalization layers."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops.norm import (
    BatchNorm,
    Cvm,
    DataNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Renorm,
    SpectralNorm,
)
from graphopt.reference.derivatives import hold
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array, TapeNode, apply


def channel_of(rank: int, data_format: str) -> int:
    """Return the axis of the channels."""
    return rank - 1 if data_format in ("NHWC", "NLC", "NDHWC") else 1


def by_channel(vector: Array, x: Array, channel: int) -> Array:
    """Reshape a vector to broadcast along one axis of x."""
    return np.reshape(vector, [-1 if i == channel else 1 for i in range(x.ndim)])


@rule(BatchNorm)
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
) -> tuple[Array, ...]:
    channel = channel_of(x.ndim, data_format)
    others = tuple(i for i in range(x.ndim) if i != channel)
    if use_global_stats or (is_test and not trainable_statistics):
        center, spread, new_mean, new_variance = mean, variance, mean, variance
    else:
        count = float(max(math.prod(x.shape[i] for i in others), 0))
        center = np.sum(x, axis=others) / count
        distance = x - by_channel(center, x, channel)
        spread = np.sum(distance * distance, axis=others) / count
        new_mean = mean * momentum + center * (1.0 - momentum)
        new_variance = variance * momentum + spread * (1.0 - momentum)
    inverse = 1.0 / np.sqrt(spread + epsilon)
    factor = inverse if scale is None else inverse * scale
    out = (x - by_channel(center, x, channel)) * by_channel(factor, x, channel)
    if bias is not None:
        out = out + by_channel(bias, x, channel)
    # the saved variance is the inverse deviation; statistics have no gradient
    return out, *map(hold, (new_mean, new_variance, center, inverse))


def _standard(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """Compute (x - mean) / deviation, the mean and the variance; the axes stay."""
    count = float(math.prod(x.shape[a] for a in axes))
    mean = np.sum(x, axis=axes, keepdims=True) / count
    distance = x - mean
    variance = np.sum(distance * distance, axis=axes, keepdims=True) / count
    return distance * (1.0 / np.sqrt(variance + epsilon)), mean, variance


@rule(LayerNorm)
def layer_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, begin_norm_axis: int
) -> tuple[Array, Array, Array]:
    out, mean, variance = _standard(x, tuple(range(begin_norm_axis, x.ndim)), epsilon)
    inner = x.shape[begin_norm_axis:]
    if scale is not None:
        out = out * np.reshape(scale, inner)
    if bias is not None:
        out = out + np.reshape(bias, inner)
    return out, np.reshape(mean, (-1,)), np.reshape(variance, (-1,))


@rule(GroupNorm)
def group_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> tuple[Array, Array, Array]:
    channel = channel_of(x.ndim, data_layout)
    first = np.moveaxis(x, channel, 1)
    rows = x.shape[0]
    grouped = np.reshape(first, (rows, groups, math.prod(first.shape[1:]) // groups))
    normal, mean, variance = _standard(grouped, (2,), epsilon)
    out = np.moveaxis(np.reshape(normal, first.shape), 1, channel)
    if scale is not None:
        out = out * by_channel(scale, x, channel)
    if bias is not None:
        out = out + by_channel(bias, x, channel)
    return out, hold(mean)[..., 0], hold(variance)[..., 0]


@rule(InstanceNorm)
def instance_norm(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    if x.ndim < 2:
        raise Unsupported("pd.instance_norm", "of rank below 2")
    out, mean, variance = group_norm(x, scale, bias, epsilon, x.shape[1], "NCHW")
    # the saved variance is the inverse deviation
    return out, np.ravel(mean), np.ravel(1.0 / np.sqrt(variance + epsilon))


@rule(SpectralNorm)
def spectral_norm(
    weight: Array, u: Array, v: Array, dim: int, power_iters: int, eps: float
) -> Array:
    first = np.moveaxis(weight, dim, 0)
    matrix = np.reshape(first, (first.shape[0], math.prod(first.shape[1:])))
    fixed, left, right = hold(matrix), hold(u), hold(v)
    for _ in range(power_iters):
        right = np.matmul(left, fixed)
        right = right / (np.sqrt(np.sum(right * right)) + eps)
        left = np.matmul(fixed, right)
        left = left / (np.sqrt(np.sum(left * left)) + eps)
    return weight / np.sum(left * np.matmul(matrix, right))


@rule(Renorm)
def renorm(x: Array, p: float, axis: int, max_norm: float) -> Array:
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    powers = np.sum(np.power(np.abs(x), p), axis=others, keepdims=True)
    size = np.power(powers, 1.0 / p)
    long = size > max_norm
    return np.where(long, x * (max_norm / np.where(long, size, 1.0)), x)


@rule(DataNorm)
def data_norm(
    x: Array,
    batch_size: Array,
    batch_sum: Array,
    batch_square_sum: Array,
    scale_w: Array | None,
    bias: Array | None,
    data_layout: str,
) -> tuple[Array, Array, Array]:
    if any(isinstance(value, TapeNode) for value in (batch_size, batch_sum, batch_square_sum)):
        raise Unsupported("pd.data_norm", "its derivative with respect to the sums")
    channel = channel_of(x.ndim, data_layout)
    means, scales = batch_sum / batch_size, np.sqrt(batch_size / batch_square_sum)
    out = (x - by_channel(means, x, channel)) * by_channel(scales, x, channel)
    if scale_w is not None:
        out = out * by_channel(scale_w, x, channel)
    if bias is not None:
        out = out + by_channel(bias, x, channel)
    return out, means, scales


@rule(Cvm)
def cvm(x: Array, cvm: Array, use_cvm: bool) -> Array:
    def forward(rows: Array, _: Array) -> Array:
        shows, clicks = np.log(rows[:, 0] + 1), np.log(rows[:, 1] + 1)
        counts = np.stack([shows, clicks - shows], 1)
        return np.concatenate([counts, rows[:, 2:]], 1) if use_cvm else rows[:, 2:]

    def backward(g: Array, _: Array, __: Array, counts: Array) -> Array:
        return np.concatenate([counts, g[:, 2:] if use_cvm else g], 1)

    return apply(forward, [backward, None], x, cvm)
