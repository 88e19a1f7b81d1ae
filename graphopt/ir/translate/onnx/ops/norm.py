"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import norm as ops
from graphopt.ir.dialect.ops.math import (
    Add,
    AddN,
    Divide,
    Equal,
    Multiply,
    Pow,
    Rsqrt,
    Scale,
    Sqrt,
    Square,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.reduce import Mean, PNorm
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import END, OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads


@reads("BatchNormalization")
def batch_norm(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue,
    mean: SSAValue,
    variance: SSAValue,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
) -> Sequence[SSAValue]:
    """Normalize by the running statistics, or in training mode by the statistics of the batch.

    Training mode also updates the running statistics.
    """
    if not spatial:
        raise emit.refuse(
            "spatial = 0, statistics of each pixel, is not supported; replace the node by others"
        )
    if not training_mode and sum(emit.used) > 1:
        raise emit.refuse(
            "statistics as outputs, of version 9 and before, are not supported; remove these "
            "outputs"
        )
    kept = dtype(x)
    wide = dtype(mean)
    made = emit.all(
        ops.BatchNorm,
        *(x, mean, variance, emit.cast(scale, wide), emit.cast(bias, wide)),
        momentum=momentum,
        epsilon=epsilon,
        is_test=not training_mode,
        use_global_stats=not training_mode,
    )
    return [emit.cast(made[0], kept), made[1], made[2]]


@reads("InstanceNormalization")
def instance_norm(
    emit: OnnxEmitter, x: SSAValue, scale: SSAValue, bias: SSAValue, *, epsilon: float = 1e-5
) -> SSAValue:
    return emit(ops.InstanceNorm, x, scale, bias, epsilon=epsilon)


@reads("LayerNormalization")
def layer_norm(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Sequence[SSAValue]:
    """Normalize over the axes from `axis` on.

    `pd.layer_norm` takes a scale of exactly these axes, flattened. Otherwise smaller ops compute
    the norm.
    """
    at = emit.axis(axis, rank(x))
    sizes = shape(x)[at:]
    fits = UNKNOWN not in sizes and all(
        value is None or shape(value) == sizes for value in (scale, bias)
    )
    if fits and at and not any(emit.used[1:]):
        flat = [value and emit.to_shape(value, (prod(sizes),)) for value in (scale, bias)]
        return [emit(ops.LayerNorm, x, *flat, epsilon=epsilon, begin_norm_axis=at)]
    kept, axes = dtype(x), tuple(range(at, rank(x)))
    x = emit.cast(x, "float32" if kept in ("float16", "bfloat16") else kept)
    mean = emit(Mean, x, axis=axes, keepdim=True)
    centred = emit(Subtract, x, mean)
    variance = emit(Mean, emit(Square, centred), axis=axes, keepdim=True)
    inverse = emit(Rsqrt, emit(Scale, variance, bias=epsilon))
    out = emit(Multiply, emit.cast(emit(Multiply, centred, inverse), kept), scale)
    return [out if bias is None else emit(Add, out, bias), mean, inverse]


@reads("RMSNormalization")
def rms_norm(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> SSAValue:
    kept, axes = dtype(x), tuple(range(emit.axis(axis, rank(x)), rank(x)))
    wide = emit.cast(x, "float32" if kept in ("float16", "bfloat16") else kept)
    mean = emit(Mean, emit(Square, wide), axis=axes, keepdim=True)
    out = emit(Multiply, wide, emit(Rsqrt, emit(Scale, mean, bias=epsilon)))
    return emit(Multiply, emit.cast(out, kept), scale)


@reads("GroupNormalization")
def group_norm(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> SSAValue:
    """Normalize by group; the scale is per channel since opset 21, and was per group before."""
    channels = shape(x)[1]
    if emit.opset < 21 and channels != UNKNOWN and shape(scale) == (num_groups,) != (channels,):
        each = channels // num_groups
        scale, bias = (
            emit.to_shape(emit.expand(emit.unsqueeze(value, 1), (num_groups, each)), (channels,))
            for value in (scale, bias)
        )
    return emit(ops.GroupNorm, x, scale, bias, epsilon=epsilon, groups=num_groups)


@reads("LpNormalization")
def lp_norm(emit: OnnxEmitter, x: SSAValue, *, axis: int = -1, p: int = 2) -> SSAValue:
    """Normalize vectors along an axis to length 1; a vector of length 0 stays 0."""
    at = emit.axis(axis, rank(x))
    length = emit(PNorm, x, porder=float(p), axis=(at,), keepdim=True)
    zero = emit(Equal, length, emit.number(0, x))
    safe = emit(Where, zero, emit.fill_like(length, 1), length)
    return emit(Divide, x, safe)


@reads("LRN")
def lrn(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    size: int,
) -> SSAValue:
    """Divide x by (bias + alpha * mean of squares of `size` neighboring channels) ** beta."""
    emit.check_bound("neighbouring channels", size, most=1024)
    around = [0] * (2 * rank(x))
    around[2:4] = [(size - 1) // 2, size - 1 - (size - 1) // 2]
    squares = emit(Pad, emit(Square, x), paddings=tuple(around))
    near = [
        emit(Slice, squares, axes=(1,), starts=(i,), ends=(i + 1 - size or END,))
        for i in range(size)
    ]
    middle = emit.scale(emit(AddN, near), alpha / size, bias)
    return emit(Multiply, x, emit(Pow, middle, factor=-beta))


@reads("MeanVarianceNormalization")
def mean_variance(emit: OnnxEmitter, x: SSAValue, *, axes: Sequence[int] = (0, 2, 3)) -> SSAValue:
    at = tuple(emit.axis(axis, rank(x)) for axis in axes)
    centred = emit(Subtract, x, emit(Mean, x, axis=at, keepdim=True))
    variance = emit(Mean, emit(Square, centred), axis=at, keepdim=True)
    return emit(Divide, centred, emit(Scale, emit(Sqrt, variance), bias=1e-9))
