"""Pooling over two or three spatial dimensions, and its inverse."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops import pool as ops
from graphopt.ir.dialect.ops.conv import explicit_pads, spatial_sizes, window_output
from graphopt.ir.dialect.types import UNKNOWN, element_count
from graphopt.models.export.onnx.nodes import (
    Array,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.ops.conv import channels_back, channels_first, flat_pads
from graphopt.models.export.onnx.registry import exports

IntTuple = tuple[int, ...]
Pads = Sequence[tuple[int, int]]


@exports(ops.Pool2d, ops.Pool3d)
def pool(
    emit: Nodes,
    x: Value,
    kernel_size: IntTuple,
    strides: IntTuple,
    paddings: IntTuple,
    padding_algorithm: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> Value:
    sizes, rank = spatial_sizes(sizes_of(x), data_format), len(kernel_size)
    images, largest = channels_first(emit, x, data_format), pooling_type == "max"
    if global_pooling or (adaptive and set(kernel_size) == {1}):
        out = emit("GlobalMaxPool" if largest else "GlobalAveragePool", images)
    elif adaptive:
        out = _adaptive(emit, images, sizes, kernel_size, largest)
    else:
        same = padding_algorithm == "SAME" and UNKNOWN in sizes
        if same and not (largest or exclusive):
            raise NotInOnnx("the average counts padding that depends on open sizes")
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel_size, strides, (1,) * rank)
        out = _sliding(
            emit, images, sizes, kernel_size, strides, pads, largest, ceil_mode, exclusive, same
        )
    return channels_back(emit, out, data_format, rank + 2)


def _sliding(
    emit: Nodes,
    images: Value,
    sizes: Sequence[int],
    kernel: IntTuple,
    strides: IntTuple,
    pads: Pads,
    largest: bool,
    ceil_mode: bool,
    exclusive: bool,
    same: bool,
) -> Value:
    pads, ceil, counts = _windows(
        sizes, kernel, strides, pads, ceil_mode, not (largest or exclusive)
    )
    attrs = {"kernel_shape": list(kernel), "strides": list(strides), "ceil_mode": ceil}
    attrs |= {"auto_pad": "SAME_UPPER"} if same else {"pads": flat_pads(pads)}
    if largest:
        return emit("MaxPool", images, **attrs)
    out = emit("AveragePool", images, count_include_pad=int(not exclusive), **attrs)
    if counts is None:
        return out
    return emit("Mul", out, emit.cast(emit.constant(counts), dtype_of(out)))


def _windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Pads,
    ceil_mode: bool,
    counts_padding: bool,
) -> tuple[Pads, int, Array | None]:
    """Compute padding that completes all windows of Paddle, the ceil mode, and a factor.

    If it counts padding, an average in Paddle counts as much padding after a dimension as before
    it, and not the rest of a window; ONNX counts all of it, and the factor corrects that.
    """
    found: list[tuple[int, int]] = []
    factors: list[Array] = []
    ceil = 0
    for size, k, stride, (before, after) in zip(sizes, kernel, strides, pads, strict=True):
        if size == UNKNOWN:
            if counts_padding and (ceil_mode or after > before):
                raise NotInOnnx("the average counts padding that depends on open sizes")
            if ceil_mode and stride + after > k:
                raise NotInOnnx(
                    "the last window may exceed the padding, and the size of the axis is open"
                )
            ceil = int(ceil_mode)
            found.append((before, after))
            factors.append(np.ones(1))
            continue
        if size + before + after < k:
            raise NotInOnnx("the window is larger than the image with its padding")
        number = window_output(size, k, stride, (before, after), ceil_mode)
        first = np.arange(number) * stride - before
        found.append((before, max(int(first[-1]) + k - size, 0)))
        factors.append(k / (np.minimum(first + k, size + before) - first))
    if any(max(pair) >= k for pair, k in zip(found, kernel, strict=True)):
        raise NotInOnnx("a window contains only padding")
    factor = functools.reduce(np.multiply.outer, factors)
    return found, ceil, factor if counts_padding and (factor != 1).any() else None


def _adaptive(
    emit: Nodes, images: Value, sizes: Sequence[int], numbers: IntTuple, largest: bool
) -> Value:
    """Pool to a given number of windows, whose lengths may differ by one along each axis."""
    wanted = [size if n < 0 else n for size, n in zip(sizes, numbers, strict=True)]
    if any(
        size == UNKNOWN and n not in (1, UNKNOWN) for size, n in zip(sizes, wanted, strict=True)
    ):
        raise NotInOnnx("the sizes of the windows depend on open sizes")
    for at, (size, number) in enumerate(zip(sizes, wanted, strict=True)):
        if size == number:
            continue
        bounds = [(i * size // number, -(-(i + 1) * size // number)) for i in range(number)]
        reduce = "ReduceMax" if largest else "ReduceMean"
        axis = at + 2
        parts = [
            emit(reduce, emit.cut(images, [axis], [low], [high]), emit.ints([axis]), keepdims=1)
            if number > 1
            else emit(reduce, images, emit.ints([axis]), keepdims=1)
            for low, high in bounds
        ]
        images = emit("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    return images


@exports(ops.MaxPool2dWithIndex, ops.MaxPool3dWithIndex)
def max_pool_with_index(
    emit: Nodes,
    x: Value,
    kernel_size: IntTuple,
    strides: IntTuple,
    paddings: IntTuple,
    padding_algorithm: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
) -> tuple[Value, Value]:
    sizes = sizes_of(x)[2:]
    if UNKNOWN in sizes:
        raise NotInOnnx("the indices of the maxima depend on open sizes")
    if global_pooling or (adaptive and set(kernel_size) == {1}):
        kernel_size, strides, pads = sizes, sizes, [(0, 0)] * len(sizes)
    elif adaptive:
        if any(size % n for size, n in zip(sizes, kernel_size, strict=True)):
            raise NotInOnnx("the windows have different sizes")
        kernel_size = tuple(size // n for size, n in zip(sizes, kernel_size, strict=True))
        strides, pads = kernel_size, [(0, 0)] * len(sizes)
    else:
        ones = (1,) * len(sizes)
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel_size, strides, ones)
    pads, _, _ = _windows(sizes, kernel_size, strides, pads, ceil_mode, False)
    out, places = emit.all(
        "MaxPool",
        x,
        dtypes=(None, "int64"),
        kernel_shape=list(kernel_size),
        strides=list(strides),
        pads=flat_pads(pads),
    )
    # ONNX numbers the elements of the whole tensor, Paddle the elements of a channel
    own = emit("Mod", places, emit.number(math.prod(sizes), "int64"))
    return out, emit.cast(own, "int32")


@exports(ops.Unpool, ops.Unpool3d)
def unpool(emit: Nodes, x: Value, indices: Value, output_size: IntTuple) -> Value:
    count = emit.ints([math.prod(output_size)])
    empty = emit("Expand", emit.number(0, x), emit("Concat", emit.shape(x, 0, 2), count, axis=0))
    flat = [0, 0, element_count(sizes_of(x)[2:])]  # -1 for an open size
    places = emit.reshape(emit.cast(indices, "int64"), flat)
    filled = emit("ScatterElements", empty, places, emit.reshape(x, flat), axis=2)
    return emit.reshape(filled, [0, 0, *output_size])
