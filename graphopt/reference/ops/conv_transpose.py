"""Transposed convolution: each element of the input adds a multiple of the filter to the result."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops.conv_transpose import Conv2dTranspose, Conv3dTranspose
from graphopt.reference.ops.conv import Ints, channels_back, channels_first, pads_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(Conv2dTranspose, Conv3dTranspose)
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
        total = total + _spread(parts, strides, starts, whole)
    for axis, (size, pad) in enumerate(zip(wanted, pads, strict=True), 2):
        missing = max(pad[0] + size - total.shape[axis], 0)
        total = np.pad(total, [(0, missing if at == axis else 0) for at in range(total.ndim)])
        key = [slice(None)] * total.ndim
        key[axis] = slice(pad[0], pad[0] + size)
        total = total[tuple(key)]
    return channels_back(total, data_format)


def _spread(x: Array, strides: Ints, starts: Sequence[int], whole: Sequence[int]) -> Array:
    """The elements `strides` apart, the first one at `starts`, among zeros up to the sizes."""
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
