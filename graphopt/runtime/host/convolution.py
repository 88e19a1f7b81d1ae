"""Two-dimensional convolutions in NumPy: products with the windows of an image, in strips of rows.

A strip is as many rows of the result as leave their windows in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphopt.ir.dialect.ops.conv import explicit_pads, used_dilations

Array: TypeAlias = "np.ndarray[Any, Any]"
Ints: TypeAlias = "Sequence[int]"

STRIP = 1 << 18
"""The most elements of the windows of a strip."""
FEWEST = 4
"""Of fewer channels the windows take less time than a product for each row of the filter."""


def conv2d(
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
    """The rule of pd.conv2d."""
    weights = filter if filter_format == "HWIO" else np.transpose(filter, (2, 3, 1, 0))
    kernel, steps = weights.shape[:2], used_dilations(dilations, padding_algorithm)
    x = channels_last(input, data_format)
    is_last = data_format == "NHWC"
    pads = explicit_pads(paddings, padding_algorithm, x.shape[1:3], kernel, strides, steps)
    if any(map(any, pads)):
        none = (0, 0)
        widths = (none, *pads, none) if is_last else (none, none, *pads)
        x = channels_last(np.pad(input, widths), data_format)
    windows = _windows(x, kernel, strides, steps)
    batch, rows, columns = windows.shape[:3]
    outs = weights.shape[3]
    shape = (batch, rows, columns, outs) if is_last else (batch, outs, rows, columns)
    out = np.empty(shape, x.dtype)
    apply = _each_channel if weights.shape[2] == 1 and groups > 1 else _products
    for image, result in zip(windows, channels_last(out, data_format), strict=True):
        apply(image, weights, groups, result)
    return out


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
    """The rule of pd.depthwise_conv2d."""
    x = np.fmax(input, 0) if fuse_relu_before_depthwise_conv else input
    window = strides, paddings, padding_algorithm, dilations
    return conv2d(x, filter, *window, groups, data_format, filter_format)


def channels_last(x: Array, data_format: str) -> Array:
    """A view with the channels last."""
    return x if data_format == "NHWC" else np.moveaxis(x, 1, -1)


def _windows(x: Array, kernel: Ints, strides: Ints, dilations: Ints) -> Array:
    """The windows of images without a copy: [images, rows, columns, kh, kw, channels]."""
    batch, *sizes, channels = x.shape
    counts = [
        (size - d * (k - 1) - 1) // stride + 1
        for size, d, k, stride in zip(sizes, dilations, kernel, strides, strict=True)
    ]
    own, down, along, between = x.strides
    outer = down * strides[0], along * strides[1]
    inner = down * dilations[0], along * dilations[1]
    shape = (batch, *counts, *kernel, channels)
    return as_strided(x, shape, (own, *outer, *inner, between), writeable=False)


def _strips(windows: Array, width: int) -> list[slice]:
    """The rows of one image in strips, where each pixel has `width` elements at a time."""
    step = max(1, STRIP // max(1, width * windows.shape[1]))
    return [slice(start, start + step) for start in range(0, windows.shape[0], step)]


def _products(windows: Array, weights: Array, groups: int, out: Array) -> None:
    """A matrix product for each strip and group of channels."""
    own, outs = weights.shape[2], weights.shape[3] // groups
    is_last = windows.strides[-1] == windows.itemsize
    by_rows = not is_last and own >= FEWEST and windows.strides[2] == windows.strides[0]
    for group in range(groups):
        seen = windows[..., group * own : (group + 1) * own]
        made = out[..., group * outs : (group + 1) * outs]
        own_weights = weights[..., group * outs : (group + 1) * outs]
        if by_rows and len(weights) > 1:
            _add_rows(seen, own_weights, made)
            continue
        matrix = own_weights.reshape(-1, outs)
        for strip in _strips(seen, len(matrix)):
            # a copy that reads and writes in the order of the image
            if is_last:
                columns = seen[strip].reshape(-1, len(matrix))
                made[strip] = (columns @ matrix).reshape(made[strip].shape)
            else:
                columns = seen[strip].transpose(2, 3, 4, 0, 1).reshape(len(matrix), -1)
                product = (matrix.T @ columns).reshape(outs, *made[strip].shape[:2])
                made[strip] = np.moveaxis(product, 0, -1)


def _add_rows(windows: Array, weights: Array, out: Array) -> None:
    """A product for each row of the filter, of a step of one row, which are added up.

    The windows of a row of the filter are those of the row before, a row of the image further on.
    So they are copied once for all rows.
    """
    height, width, own, outs = weights.shape
    rows, columns = windows.shape[:2]
    matrices = np.ascontiguousarray(weights.transpose(0, 3, 1, 2)).reshape(height, outs, -1)
    down, along, _, step, channel = windows.strides
    shape = width, own, rows + height - 1, columns
    one = as_strided(windows, shape, (step, channel, down, along), writeable=False)
    for strip in _strips(windows, width * own):
        count = len(out[strip]) * columns
        copied = one[:, :, strip.start : strip.stop + height - 1].reshape(width * own, -1)
        total = matrices[0] @ copied[:, :count]
        for row in range(1, height):
            start = row * columns
            total += matrices[row] @ copied[:, start : start + count]
        out[strip] = np.moveaxis(total.reshape(outs, -1, columns), 0, -1)


def _each_channel(windows: Array, weights: Array, groups: int, out: Array) -> None:
    """Filters of one channel: a sum over the positions of the filter, for each strip."""
    times = weights.shape[3] // groups  # of each channel of the input
    if times > 1:
        windows = np.repeat(windows, times, -1)
    for strip in _strips(windows, out.shape[-1]):
        total = out[strip]
        total[...] = 0
        for i, j in np.ndindex(*weights.shape[:2]):
            total += windows[strip, :, i, j] * weights[i, j, 0]


def conv2d_transpose(
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
    """The rule of pd.conv2d_transpose: each pixel adds its filter to the result."""
    x = np.moveaxis(channels_last(input, data_format), -1, 1)
    batch, channels, *sizes = x.shape
    own, outs, *kernel = channels // groups, *filter.shape[1:]
    steps = used_dilations(dilations, padding_algorithm)
    pads = explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, steps)
    spans = [
        (size - 1) * stride + d * (k - 1) + 1
        for size, stride, d, k in zip(sizes, strides, steps, kernel, strict=True)
    ]
    extra = output_padding or [0, 0]
    wanted = output_size or [
        span - sum(pad) + more for span, pad, more in zip(spans, pads, extra, strict=True)
    ]
    room = [max(s, pad[0] + w) for s, pad, w in zip(spans, pads, wanted, strict=True)]
    columns = x.reshape(batch, groups, own, math.prod(sizes))
    matrix = filter.reshape(groups, own, -1).swapaxes(1, 2)
    parts = np.matmul(matrix, columns).reshape(batch, groups, outs, *kernel, *sizes)
    out = np.zeros((batch, groups, outs, *room), x.dtype)
    for i, j in np.ndindex(*kernel):
        top, left = i * steps[0], j * steps[1]
        down = slice(top, top + (sizes[0] - 1) * strides[0] + 1, strides[0])
        along = slice(left, left + (sizes[1] - 1) * strides[1] + 1, strides[1])
        out[..., down, along] += parts[:, :, :, i, j]
    out = out[..., pads[0][0] : pads[0][0] + wanted[0], pads[1][0] : pads[1][0] + wanted[1]]
    out = out.reshape(batch, groups * outs, *wanted)
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out
