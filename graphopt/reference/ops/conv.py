"""Convolution, as a sum over the positions of a window; the transpose spreads the filter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops import conv as ops
from graphopt.reference.ops.activation import relu
from graphopt.reference.registry import rule
from graphopt.reference.sampling import read_between
from graphopt.reference.tape import Array

Ints = Sequence[int]
Pairs = list[tuple[int, int]]


def pads_of(paddings: Ints, algorithm: str, sizes: Ints, window: Ints, strides: Ints) -> Pairs:
    """Compute (before, after) padding of each spatial dimension; SAME assumes a dilation of 1."""
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


@rule(ops.Conv2d, ops.Conv3d)
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


@rule(ops.DepthwiseConv2d)
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


@rule(ops.Conv2dTranspose, ops.Conv3dTranspose)
def transposed_convolution(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    output_padding: Ints,
    output_size: Ints,
    data_format: str,
) -> Array:
    x = channels_first(input, data_format)
    rows, sizes, kernel = x.shape[0], x.shape[2:], filter.shape[2:]
    if padding_algorithm == "SAME":
        dilations = [1] * len(kernel)
    pads = pads_of(paddings, padding_algorithm, sizes, kernel, strides)
    whole = [
        (size - 1) * stride + d * (k - 1) + 1
        for size, stride, d, k in zip(sizes, strides, dilations, kernel, strict=True)
    ]
    extra = output_padding or [0] * len(kernel)
    wanted = output_size or [
        size - sum(pad) + more for size, pad, more in zip(whole, pads, extra, strict=True)
    ]
    own, outs = x.shape[1] // groups, filter.shape[1]
    apart = np.reshape(x, (rows, groups, own, -1))
    columns = np.reshape(np.transpose(apart, (1, 2, 0, 3)), (groups, own, -1))
    weight = np.reshape(filter, (groups, own, outs, *kernel))
    total: Array = np.zeros((rows, groups * outs, *whole))
    for position in itertools.product(*map(range, kernel)):
        key = np.swapaxes(weight[(..., *position)], 1, 2)
        product = np.reshape(np.matmul(key, columns), (groups, outs, rows, *sizes))
        order = (2, 0, 1, *range(3, 3 + len(kernel)))
        parts = np.reshape(np.transpose(product, order), (rows, groups * outs, *sizes))
        starts = [at * d for at, d in zip(position, dilations, strict=True)]
        total = total + _spread_elements(parts, strides, starts, whole)
    for axis, (size, pad) in enumerate(zip(wanted, pads, strict=True), 2):
        missing = max(pad[0] + size - total.shape[axis], 0)
        total = np.pad(total, [(0, missing if at == axis else 0) for at in range(total.ndim)])
        key = [slice(None)] * total.ndim
        key[axis] = slice(pad[0], pad[0] + size)
        total = total[tuple(key)]
    return channels_back(total, data_format)


def _spread_elements(x: Array, strides: Ints, starts: Sequence[int], whole: Sequence[int]) -> Array:
    """Spread elements `strides` apart, from `starts` on, among zeros up to the sizes."""
    for axis, (stride, start, size) in enumerate(zip(strides, starts, whole, strict=True), 2):
        shape = x.shape
        apart = np.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        widths = [(0, stride - 1 if at == axis + 1 else 0) for at in range(apart.ndim)]
        length = shape[axis] * stride
        joined = np.reshape(np.pad(apart, widths), (*shape[:axis], length, *shape[axis + 1 :]))
        cut = [slice(None)] * joined.ndim
        cut[axis] = slice(0, length - stride + 1)
        after = size - start - (length - stride + 1)
        widths = [(start, after) if at == axis else (0, 0) for at in range(joined.ndim)]
        x = np.pad(joined[tuple(cut)], widths)
    return x


@rule(ops.DeformableConv)
def deformable_conv(
    x: Array,
    offset: Array,
    filter: Array,
    mask: Array | None,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
    deformable_groups: int,
    groups: int,
) -> Array:
    batch, channels = x.shape[:2]
    outs, own, *kernel = filter.shape
    places = list(itertools.product(*map(range, kernel)))
    sizes = offset.shape[2:]
    moved = np.reshape(offset, (batch, deformable_groups, len(places), 2, *sizes))
    shares = (
        None if mask is None else np.reshape(mask, (batch, deformable_groups, len(places), *sizes))
    )
    pads = pads_of(paddings, "EXPLICIT", x.shape[2:], kernel, strides)
    weight = np.reshape(filter, (groups, outs // groups, own, len(places)))
    each = channels // deformable_groups
    total: Array = np.zeros((), x.dtype)
    for number, place in enumerate(places):
        regular = [
            np.arange(count) * stride - before + at * dilation
            for count, stride, (before, _), at, dilation in zip(
                sizes, strides, pads, place, dilations, strict=True
            )
        ]
        rows, columns = regular[0][:, None].astype(x.dtype), regular[1].astype(x.dtype)
        parts: list[Array] = []
        for group in range(deformable_groups):
            at = moved[:, group, number]
            images = x[:, group * each : (group + 1) * each]
            found = read_between(images, [rows + at[:, 0], columns + at[:, 1]])
            parts.append(found if shares is None else found * shares[:, group, number][..., None])
        read = np.concatenate(parts, -1)  # [batch, rows, columns, channels]
        read = np.reshape(read, (batch * math.prod(sizes), groups, own))
        inputs = np.transpose(read, (1, 2, 0))
        total = total + np.matmul(weight[..., number], inputs)
    apart = np.reshape(total, (groups, outs // groups, batch, *sizes))
    return np.reshape(np.transpose(apart, (2, 0, 1, 3, 4)), (batch, outs, *sizes))
