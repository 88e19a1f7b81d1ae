"""Convolution and pooling, as sums over the positions of a window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops.conv import Conv2d, Conv3d, DepthwiseConv2d, Pool2d, Pool3d
from graphopt.reference.ops.activation import relu
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

Ints = Sequence[int]
Pairs = list[tuple[int, int]]


def pads_of(paddings: Ints, algorithm: str, sizes: Ints, window: Ints, strides: Ints) -> Pairs:
    """Padding before and after each spatial dimension; `window` is 1 to a dilation of 1."""
    count = len(window)
    if algorithm == "VALID":
        return [(0, 0)] * count
    if algorithm == "SAME":
        pairs: Pairs = []
        for size, own, stride in zip(sizes, window, strides, strict=True):
            missing = max((math.ceil(size / stride) - 1) * stride + own - size, 0)
            pairs.append((missing // 2, missing - missing // 2))
        return pairs
    if len(paddings) == count:
        return [(p, p) for p in paddings]
    return [(paddings[2 * i], paddings[2 * i + 1]) for i in range(count)]


def channels_first(x: Array, data_format: str) -> Array:
    return np.moveaxis(x, -1, 1) if data_format in ("NHWC", "NDHWC") else x


def channels_back(x: Array, data_format: str) -> Array:
    return np.moveaxis(x, 1, -1) if data_format in ("NHWC", "NDHWC") else x


@rule(Conv2d, Conv3d)
def convolution(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    filter_format: str,
) -> Array:
    filter = np.transpose(filter, (3, 2, 0, 1)) if filter_format == "HWIO" else filter
    x = channels_first(input, data_format)
    kernel = filter.shape[2:]
    sizes = x.shape[2:]
    if padding_algorithm == "SAME":
        dilations = [1] * len(kernel)
    pads = pads_of(paddings, padding_algorithm, sizes, kernel, strides)
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    out_sizes = [
        (size - own) // stride + 1
        for size, own, stride in zip(x.shape[2:], reach, strides, strict=True)
    ]
    rows, own, places = x.shape[0], x.shape[1] // groups, math.prod(out_sizes)
    outs = filter.shape[0]
    weight = np.reshape(filter, (groups, outs // groups, filter.shape[1], *kernel))
    total: Array = np.zeros((groups, outs // groups, rows * places))
    for position in itertools.product(*map(range, kernel)):
        key = tuple(
            slice(at * d, at * d + (number - 1) * stride + 1, stride)
            for at, d, number, stride in zip(position, dilations, out_sizes, strides, strict=True)
        )
        seen = np.reshape(x[(slice(None), slice(None), *key)], (rows, groups, own, places))
        columns = np.reshape(np.transpose(seen, (1, 2, 0, 3)), (groups, own, rows * places))
        total = total + np.matmul(weight[(..., *position)], columns)
    apart = np.reshape(total, (groups, outs // groups, rows, *out_sizes))
    order = (2, 0, 1, *range(3, 3 + len(kernel)))
    out = np.reshape(np.transpose(apart, order), (rows, outs, *out_sizes))
    return channels_back(out, data_format)


@rule(DepthwiseConv2d)
def depthwise_conv2d(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    filter_format: str,
    fuse_relu_before_depthwise_conv: bool,
) -> Array:
    x = relu(input) if fuse_relu_before_depthwise_conv else input
    return convolution(
        x,
        filter,
        strides,
        paddings,
        padding_algorithm,
        dilations,
        groups,
        data_format,
        filter_format,
    )


def _windows(
    size: int, own: int, stride: int, pad: tuple[int, int], ceil_mode: bool, exclusive: bool
) -> list[tuple[int, int, int]]:
    """Start, end and the number that an average divides by, of each window along a dimension."""
    room = size + sum(pad) - own
    number = (math.ceil(room / stride) if ceil_mode else room // stride) + 1
    found: list[tuple[int, int, int]] = []
    for at in range(number):
        start = at * stride - pad[0]
        # Paddle lets the end reach as far as the padding in front does
        end = min(start + own, size + pad[0])
        first, last = max(start, 0), min(end, size)
        found.append((first, last, last - first if exclusive else end - start))
    return found


@rule(Pool2d, Pool3d)
def pool(
    x: Array,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> Array:
    x = channels_first(x, data_format)
    sizes = x.shape[2:]
    if global_pooling or adaptive:
        wanted = [1] * len(sizes) if global_pooling else kernel_size
        # -1 keeps a dimension
        numbers = [s if w < 0 else w for s, w in zip(sizes, wanted, strict=True)]
        windows = [
            [
                (i * size // n, -(-(i + 1) * size // n), -(-(i + 1) * size // n) - i * size // n)
                for i in range(n)
            ]
            for size, n in zip(sizes, numbers, strict=True)
        ]
    else:
        pads = pads_of(paddings, padding_algorithm, sizes, kernel_size, strides)
        windows = [
            _windows(*each, ceil_mode, exclusive)
            for each in zip(sizes, kernel_size, strides, pads, strict=True)
        ]
    axes = tuple(range(2, x.ndim))
    cells: list[Array] = []
    for cell in itertools.product(*windows):
        part = x[(slice(None), slice(None), *(slice(a, b) for a, b, _ in cell))]
        if pooling_type == "max":
            cells.append(np.max(part, axis=axes) if part.size else np.full(x.shape[:2], -np.inf))
        else:
            cells.append(np.sum(part, axis=axes) / float(math.prod(n for _, _, n in cell)))
    out = np.reshape(np.stack(cells, -1), (*x.shape[:2], *map(len, windows)))
    return channels_back(out, data_format)
