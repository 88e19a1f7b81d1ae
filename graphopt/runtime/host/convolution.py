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
ROWS = 1 << 16
"""The elements of a strip where each channel has a filter of its own."""
FEWEST = 4
"""Of fewer channels the windows take less time than a product for each row of the filter."""
LARGE = 4
"""As many pixels as that for each filter are worth a copy of the filters."""


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
    (*kernel, own, outs), steps = weights.shape, used_dilations(dilations, padding_algorithm)
    is_last = data_format == "NHWC"
    sizes = input.shape[1:3] if is_last else input.shape[2:]
    pads = explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, steps)
    x = channels_last(_pad(input, pads, 1 if is_last else 2), data_format)
    windows = _windows(x, kernel, strides, steps)
    batch, *counts = windows.shape[:3]
    if own == 1 and groups > 1:
        out = _each_channel(np.ascontiguousarray(x), weights, strides, steps, counts)
        return out if is_last else np.ascontiguousarray(np.moveaxis(out, -1, 1))
    shape = (batch, *counts, outs) if is_last else (batch, outs, *counts)
    out = np.empty(shape, x.dtype)
    for group in range(groups):
        seen = windows[..., group * own : (group + 1) * own]
        part = slice(group * outs // groups, (group + 1) * outs // groups)
        if is_last:
            _pixels(seen, weights[..., part], out[..., part])
        elif _is_by_rows(seen, outs // groups):
            for image, made in zip(seen, out[:, part], strict=True):
                _add_rows(image, weights[..., part], made)
        else:
            _planes(seen, weights[..., part], out[:, part])
    return out


def _pad(x: Array, pads: Sequence[Ints], first: int) -> Array:
    """Images, whose rows are the dimension `first`, with zeros around them."""
    if not any(map(any, pads)):
        return x
    shape, inside = [*x.shape], [slice(None)] * x.ndim
    for axis, (before, after) in enumerate(pads, first):
        inside[axis] = slice(before, before + shape[axis])
        shape[axis] += before + after
    padded = np.zeros(shape, x.dtype)
    padded[tuple(inside)] = x
    return padded


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


def _pixels(windows: Array, weights: Array, out: Array) -> None:
    """A product for each strip of images with the channels last, which are there one by one."""
    outs = weights.shape[3]
    matrix = weights.reshape(-1, outs)
    for image, made in zip(windows, out, strict=True):
        for strip in _strips(image, len(matrix)):
            columns, strip_out = image[strip].reshape(-1, len(matrix)), made[strip]
            if strip_out.flags.c_contiguous:
                np.matmul(columns, matrix, out=strip_out.reshape(-1, outs))
            else:
                strip_out[...] = (columns @ matrix).reshape(strip_out.shape)


def _is_by_rows(windows: Array, outs: int) -> bool:
    """True for images of which a product for each row of the filter copies less."""
    rows, columns, height, _, own = windows.shape[1:]
    steps_by_one = windows.strides[3] == windows.strides[1]
    return height > 1 and own >= FEWEST and steps_by_one and rows * columns > LARGE * outs


def _planes(windows: Array, weights: Array, out: Array) -> None:
    """A product for several small images, or a strip of a large one, with the channels first."""
    outs, rows, columns = out.shape[1:]
    filters = np.transpose(weights, (3, 2, 0, 1))
    if filters.flags.c_contiguous:  # as Paddle has them: that is no copy
        order, matrix = (5, 3, 4), filters.reshape(outs, -1)
    else:
        order, matrix = (3, 4, 5), weights.reshape(-1, outs).T
    width = matrix.shape[1]
    together = max(1, STRIP // max(1, width * rows * columns))
    for first in range(0, len(windows), together):
        images = slice(first, first + together)
        for strip in _strips(windows[first], width) if together == 1 else [slice(rows)]:
            seen = windows[images, strip]
            # a copy that reads and writes in the order of the image
            product = matrix @ seen.transpose(*order, 0, 1, 2).reshape(width, -1)
            out[images, :, strip] = np.moveaxis(product.reshape(outs, *seen.shape[:3]), 0, 1)


def _add_rows(windows: Array, weights: Array, out: Array) -> None:
    """A product for each row of the filter, of a step of one row, which are added up.

    The windows of a row of the filter are those of the row before, a row of the image further on.
    So they are copied once for all rows. `out` has its channels first.
    """
    height, width, own, outs = weights.shape
    rows, columns = windows.shape[:2]
    matrices = np.ascontiguousarray(weights.transpose(0, 3, 1, 2)).reshape(height, outs, -1)
    down, along, _, step, channel = windows.strides
    shape = width, own, rows + height - 1, columns
    one = as_strided(windows, shape, (step, channel, down, along), writeable=False)
    for strip in _strips(windows, width * own):
        count = len(windows[strip]) * columns
        copied = one[:, :, strip.start : strip.stop + height - 1].reshape(width * own, -1)
        total = matrices[0] @ copied[:, :count]
        for row in range(1, height):
            start = row * columns
            total += matrices[row] @ copied[:, start : start + count]
        out[:, strip] = total.reshape(outs, -1, columns)


def _each_channel(x: Array, weights: Array, strides: Ints, dilations: Ints, counts: Ints) -> Array:
    """Filters of one channel, with the channels last: a sum over the positions of the filter.

    A row of pixels is one long row of numbers, which each position of the filter sees a few pixels
    further on. Where a step goes over several pixels, each of these has rows of its own.
    """
    (down, right), (rows, columns) = strides, counts
    times = weights.shape[3] // x.shape[3]  # of each channel of the input
    x = np.repeat(x, times, -1) if times > 1 else x
    channels, filters = x.shape[3], np.tile(weights[:, :, 0], columns)
    length, height = columns * channels, max(1, ROWS // max(1, columns * channels))
    product = np.empty((min(height, rows), length), x.dtype)
    out = np.empty((len(x), rows, length), x.dtype)
    for image, made in zip(x, out, strict=True):
        parts = [np.ascontiguousarray(image[:, j::right]) for j in range(right)]
        parts = [part.reshape(len(image), part.shape[1] * channels) for part in parts]
        for top in range(0, rows, height):
            strip = made[top : top + height]
            for i, j in np.ndindex(*filters.shape[:2]):
                (column, part), first = divmod(j * dilations[1], right), i * dilations[0]
                start, end = top * down + first, (top + len(strip) - 1) * down + first + 1
                at = column * channels
                seen = parts[part][start:end:down, at : at + length]
                if i == j == 0:
                    np.multiply(seen, filters[i, j], out=strip)
                else:
                    strip += np.multiply(seen, filters[i, j], out=product[: len(strip)])
    return out.reshape(len(x), rows, columns, channels)


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
    are_apart = all(d * (k - 1) < s for k, d, s in zip(kernel, steps, strides, strict=True))
    for i, j in np.ndindex(*kernel):
        top, left = i * steps[0], j * steps[1]
        down = slice(top, top + (sizes[0] - 1) * strides[0] + 1, strides[0])
        along = slice(left, left + (sizes[1] - 1) * strides[1] + 1, strides[1])
        if are_apart:  # to add to zeros takes twice as long
            out[..., down, along] = parts[:, :, :, i, j]
        else:
            out[..., down, along] += parts[:, :, :, i, j]
    out = out[..., pads[0][0] : pads[0][0] + wanted[0], pads[1][0] : pads[1][0] + wanted[1]]
    out = out.reshape(batch, groups * outs, *wanted)
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out
