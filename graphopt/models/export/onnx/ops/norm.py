"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops import norm as ops
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.models.export.onnx.nodes import (
    LAST,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.registry import exports


def _fill_like(emit: Nodes, number: float, size: int, like: Value) -> Value:
    if size == UNKNOWN:
        raise NotInOnnx("the number of channels is open, and the operator has no weights")
    return emit.constant(np.full(size, number, dtype_of(like).numpy))


@exports(ops.BatchNorm, wide=True)
def batch_norm(
    emit: Nodes,
    x: Value,
    mean: Value,
    variance: Value,
    scale: Value | None,
    bias: Value | None,
    epsilon: float,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
    data_format: str,
    used: Sequence[bool],
) -> tuple[Value | None, ...]:
    if not (use_global_stats or (is_test and not trainable_statistics)):
        raise NotInOnnx(
            "the operator is in training mode; write a program for tests: "
            "Program.clone(for_test=True)"
        )
    rank = len(sizes_of(x))
    channel = ops.channel_axis(rank, data_format)
    moved = [axis for axis in range(rank) if axis != channel]
    images = emit.transpose(x, [moved[0], channel, *moved[1:]])
    channels = sizes_of(x)[channel]
    scale = _fill_like(emit, 1, channels, x) if scale is None else emit.cast(scale, dtype_of(x))
    bias = _fill_like(emit, 0, channels, x) if bias is None else emit.cast(bias, dtype_of(x))
    statistics = (emit.cast(value, dtype_of(x)) for value in (mean, variance))
    out = emit("BatchNormalization", images, scale, bias, *statistics, epsilon=epsilon)
    back = [0, *range(2, channel + 1), 1, *range(channel + 1, rank)]
    inverse = None
    if used[4]:
        deviation = emit("Sqrt", emit("Add", variance, emit.number(epsilon, variance)))
        inverse = emit("Reciprocal", deviation)
    return emit.transpose(out, back), mean, variance, mean, inverse


@exports(ops.LayerNorm, wide=True)
def layer_norm(
    emit: Nodes,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    epsilon: float,
    begin_norm_axis: int,
    used: Sequence[bool] = (),
) -> tuple[Value | None, ...]:
    normalized = sizes_of(x)[begin_norm_axis:]
    if UNKNOWN in normalized and (scale is None or len(normalized) > 1):
        raise NotInOnnx("a normalized axis has an open size")
    one = emit.constant(np.ones(normalized, dtype_of(x).numpy)) if scale is None else scale
    vectors = [
        None
        if v is None
        else emit.reshape(emit.cast(v, dtype_of(x)), emit.ints(normalized))
        if len(normalized) > 1
        else emit.cast(v, dtype_of(x))
        for v in (one, bias)
    ]
    out = emit("LayerNormalization", x, *vectors, axis=begin_norm_axis, epsilon=epsilon)
    mean = variance = None
    if any(used[1:]):
        moments = _moments(emit, x, range(begin_norm_axis, len(sizes_of(x))))
        mean, variance = (emit.reshape(value, [-1]) for value in moments)
    return out, mean, variance


@exports(ops.GroupNorm, wide=True)
def group_norm(
    emit: Nodes,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    epsilon: float,
    groups: int,
    data_layout: str,
    used: Sequence[bool],
) -> tuple[Value | None, ...]:
    rank = len(sizes_of(x))
    channel = ops.channel_axis(rank, data_layout)
    images = emit.transpose(x, [0, channel, *(i for i in range(1, rank) if i != channel)])
    # each group becomes a channel of InstanceNormalization
    ones, zeros = (_fill_like(emit, number, groups, x) for number in (1, 0))
    grouped = emit.reshape(images, [0, groups, -1])
    normal = emit("InstanceNormalization", grouped, ones, zeros, epsilon=epsilon)
    order = [0, channel, *(i for i in range(1, rank) if i != channel)]
    shape = [emit.size(x, axis) for axis in order]
    out = emit.reshape(normal, [0, *shape[1:]])
    out = emit.transpose(out, [order.index(axis) for axis in range(rank)])
    for op, vector in (("Mul", scale), ("Add", bias)):
        if vector is not None:
            along = emit.unsqueeze(emit.cast(vector, dtype_of(x)), *(range(1, rank - channel)))
            out = emit(op, out, along)
    if not any(used[1:]):
        return out, None, None
    return out, *(emit.squeeze(value, 2) for value in _moments(emit, grouped, [2]))


@exports(ops.InstanceNorm, wide=True)
def instance_norm(
    emit: Nodes,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    epsilon: float,
    used: Sequence[bool],
) -> tuple[Value | None, ...]:
    channels = sizes_of(x)[1]
    scale = _fill_like(emit, 1, channels, x) if scale is None else emit.cast(scale, dtype_of(x))
    bias = _fill_like(emit, 0, channels, x) if bias is None else emit.cast(bias, dtype_of(x))
    images = emit.unsqueeze(x, 2) if len(sizes_of(x)) == 2 else x
    out = emit("InstanceNormalization", images, scale, bias, epsilon=epsilon)
    out = emit.squeeze(out, 2) if len(sizes_of(x)) == 2 else out
    if not any(used[1:]):
        return out, None, None
    mean, variance = _moments(emit, x, range(2, len(sizes_of(x))))
    deviation = emit("Sqrt", emit("Add", variance, emit.number(epsilon, x)))
    # the saved variance is the inverse deviation, as in Paddle
    inverse = emit("Reciprocal", deviation)
    return out, emit.reshape(mean, [-1]), emit.reshape(inverse, [-1])


def _moments(emit: Nodes, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Compute the mean and the variance over axes, which are kept."""
    mean = emit("ReduceMean", x, emit.ints(axes))
    away = emit("Sub", x, mean)
    return mean, emit("ReduceMean", emit("Mul", away, away), emit.ints(axes))


@exports(ops.DataNorm, wide=True)
def data_norm(
    emit: Nodes,
    x: Value,
    batch_size: Value,
    batch_sum: Value,
    batch_square_sum: Value,
    scale_w: Value | None,
    bias: Value | None,
    data_layout: str,
) -> tuple[Value, Value, Value]:
    rank = len(sizes_of(x))
    after = range(1, rank - ops.channel_axis(rank, data_layout))
    means = emit("Div", batch_sum, batch_size)
    scales = emit("Sqrt", emit("Div", batch_size, batch_square_sum))
    out = emit("Mul", emit("Sub", x, emit.unsqueeze(means, *after)), emit.unsqueeze(scales, *after))
    for op, vector in (("Mul", scale_w), ("Add", bias)):
        if vector is not None:
            out = emit(op, out, emit.unsqueeze(vector, *after))
    return out, means, scales


@exports(ops.Cvm)
def cvm(emit: Nodes, x: Value, use_cvm: bool) -> Value:
    rest = emit.cut(x, [1], [2], [LAST])
    if not use_cvm:
        return rest
    counts = emit("Log", emit("Add", emit.cut(x, [1], [0], [2]), emit.number(1, x)))
    shows, clicks = (emit.cut(counts, [1], [at], [at + 1]) for at in (0, 1))
    return emit("Concat", shows, emit("Sub", clicks, shows), rest, axis=1)


@exports(ops.SpectralNorm, wide=True)
def spectral_norm(
    emit: Nodes, weight: Value, u: Value, v: Value, dim: int, power_iters: int, eps: float
) -> Value:
    rank = len(sizes_of(weight))
    at = normalize_axis(dim, rank)
    first = emit.transpose(weight, [at, *(i for i in range(rank) if i != at)])
    matrix = emit("Flatten", first, axis=1)
    left, right = emit.reshape(u, [-1]), emit.reshape(v, [-1])

    def of_length_one(vector: Value) -> Value:
        length = emit("ReduceL2", vector, keepdims=0)
        return emit("Div", vector, emit("Add", length, emit.number(eps, weight)))

    for _ in range(power_iters):
        right = of_length_one(emit("MatMul", left, matrix))
        left = of_length_one(emit("MatMul", matrix, right))
    sigma = emit("MatMul", left, emit("MatMul", matrix, right))
    return emit("Div", weight, sigma)


@exports(ops.Renorm, wide=True)
def renorm(emit: Nodes, x: Value, p: float, axis: int, max_norm: float) -> Value:
    rank = len(sizes_of(x))
    others = [i for i in range(rank) if i != normalize_axis(axis, rank)]
    powers = emit("Pow", emit("Abs", x), emit.number(p, x))
    total = emit("ReduceSum", powers, emit.ints(others), noop_with_empty_axes=1)
    length, most = emit("Pow", total, emit.number(1 / p, x)), emit.number(max_norm, x)
    long = emit("Greater", length, most)
    return emit("Where", long, emit("Mul", x, emit("Div", most, length)), x)
