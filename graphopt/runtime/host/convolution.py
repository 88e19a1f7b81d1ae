"""Convolutions of images in NumPy: products with the windows of an image, in strips of rows.

A strip has as many rows of the result as fit with their windows into the processor's cache. Results
have their channels first in memory, whatever the order of their axes: elementwise ops keep that
order, and so do all values between two convolutions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphopt.ir.dialect.ops.conv import explicit_pads, used_dilations
from graphopt.reference.ops.conv import channels_first

Array: TypeAlias = "np.ndarray[Any, Any]"
Ints: TypeAlias = "Sequence[int]"

STRIP = 1 << 18
"""The most elements of the windows of a strip."""
PRODUCTS = 1 << 20
"""The most elements of a strip's products with each position of the filter."""
FEWEST = 4
"""With fewer channels, copying windows takes less time than a product for each filter row."""
LARGE = 4
"""With more pixels than this for each filter, copying the filters pays."""
NARROWING = 4
"""From so many channels for each filter on, copying windows takes longer than adding products."""
ROWS = 8
"""The result rows in a product of one channel, at stride 1."""
BAND = 1 << 18
"""The most elements of the windows of depthwise channels that are multiplied together."""
LINE = 64
"""From so many columns on, one image is enough for such a product."""


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
    """Compute pd.conv2d."""
    weights = filter if filter_format == "OIHW" else np.transpose(filter, (3, 2, 0, 1))
    (outs, own, *kernel), steps = weights.shape, used_dilations(dilations, padding_algorithm)
    x = channels_first(input, data_format)
    x = _pad(x, explicit_pads(paddings, padding_algorithm, x.shape[2:], kernel, strides, steps))
    counts = [
        (size - d * (k - 1) - 1) // stride + 1
        for size, d, k, stride in zip(x.shape[2:], steps, kernel, strides, strict=True)
    ]
    out = np.empty((len(x), outs, *counts), x.dtype)
    if own == 1 and groups > 1 and out.size:
        _each_channel(x, weights, strides, steps, out)
    elif out.size:
        width = outs // groups
        for group in range(groups):
            seen = x[:, group * own : (group + 1) * own]
            part = slice(group * width, (group + 1) * width)
            _all_channels(seen, weights[part], strides, steps, out[:, part])
    return np.moveaxis(out, 1, -1) if data_format == "NHWC" else out


def _pad(x: Array, pads: Sequence[Ints]) -> Array:
    """Pad images with zeros."""
    if not any(map(any, pads)):
        return x
    (top, bottom), (left, right) = pads
    rows, columns = x.shape[2:]
    padded = np.empty((*x.shape[:2], top + rows + bottom, left + columns + right), x.dtype)
    padded[:, :, :top] = padded[:, :, top + rows :] = 0
    inner = padded[:, :, top : top + rows]
    inner[..., :left] = inner[..., left + columns :] = 0
    inner[..., left : left + columns] = x
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
    """Compute pd.depthwise_conv2d."""
    x = np.fmax(input, 0) if fuse_relu_before_depthwise_conv else input
    window = strides, paddings, padding_algorithm, dilations
    return conv2d(x, filter, *window, groups, data_format, filter_format)


def channels_last(x: Array, data_format: str) -> Array:
    """Return a view with the channels last."""
    return x if data_format == "NHWC" else np.moveaxis(x, 1, -1)


# -- filters over all channels ---------------------------------------------------------------------


def _all_channels(x: Array, weights: Array, strides: Ints, steps: Ints, out: Array) -> None:
    """Apply filters over all channels of `x`, which includes its padding."""
    outs, own, *kernel = weights.shape
    pixels = math.prod(out.shape[2:])
    if kernel == [1, 1] and (pixels > outs or len(x) == 1):
        _one_pixel(x[:, :, :: strides[0], :: strides[1]], weights, out)
    elif math.prod(strides) == 1 and own >= NARROWING * outs and max(kernel) > 1:
        for image, made in zip(x, out, strict=True):
            _add_positions(image, weights, steps, made)
    else:
        windows = _windows(x, kernel, strides, steps, out.shape[2:])
        if kernel[0] > 1 and own >= FEWEST and strides[0] == steps[0] and pixels > LARGE * outs:
            for image, made in zip(windows, out, strict=True):
                _add_rows(image, weights, made)
        else:
            _planes(windows, weights, out)


def _windows(x: Array, kernel: Ints, strides: Ints, dilations: Ints, counts: Ints) -> Array:
    """View the windows of images: [images, rows, columns, channels, kh, kw], without a copy."""
    own, between, down, along = x.strides
    outer = down * strides[0], along * strides[1]
    inner = down * dilations[0], along * dilations[1]
    shape = (len(x), *counts, x.shape[1], *kernel)
    return as_strided(x, shape, (own, *outer, between, *inner), writeable=False)


def _strips(rows: int, columns: int, width: int) -> list[slice]:
    """Split the rows of an image into strips, where a pixel has `width` elements."""
    step = max(1, STRIP // max(1, width * columns))
    return [slice(start, start + step) for start in range(0, rows, step)]


def _one_pixel(x: Array, weights: Array, out: Array) -> None:
    """Apply filters of one pixel: one product for each image."""
    outs, own = weights.shape[:2]
    columns = x.reshape(len(x), own, -1)
    np.matmul(weights.reshape(outs, own), columns, out=out.reshape(len(x), outs, -1))


def _planes(windows: Array, weights: Array, out: Array) -> None:
    """Multiply all windows of several small images, or of a strip of a large one, at once."""
    outs, rows, columns = out.shape[1:]
    # copy the windows in the filter's memory order
    order = (3, 4, 5) if weights.flags.c_contiguous else (4, 5, 3)
    matrix = weights.transpose(0, *(axis - 2 for axis in order)).reshape(outs, -1)
    width = matrix.shape[1]
    together = max(1, STRIP // max(1, width * rows * columns))
    for first in range(0, len(windows), together):
        images = slice(first, first + together)
        for strip in _strips(rows, columns, width) if together == 1 else [slice(rows)]:
            seen = windows[images, strip]
            product = matrix @ seen.transpose(*order, 0, 1, 2).reshape(width, -1)
            out[images, :, strip] = np.moveaxis(product.reshape(outs, *seen.shape[:3]), 0, 1)


def _add_rows(windows: Array, weights: Array, out: Array) -> None:
    """Sum a product for each row of the filter, where stride and dilation of rows agree.

    The windows of a filter row are those of the row before, one image row further down. So they are
    copied once for all rows.
    """
    outs, own, height, width = weights.shape
    rows, columns = windows.shape[:2]
    matrices = np.ascontiguousarray(weights.transpose(2, 0, 3, 1)).reshape(height, outs, -1)
    down, along, channel, _, step = windows.strides
    shape = width, own, rows + height - 1, columns
    one = as_strided(windows, shape, (step, channel, down, along), writeable=False)
    for strip in _strips(rows, columns, width * own):
        count = len(windows[strip]) * columns
        copied = one[:, :, strip.start : strip.stop + height - 1].reshape(width * own, -1)
        total = matrices[0] @ copied[:, :count]
        for row in range(1, height):
            start = row * columns
            total += matrices[row] @ copied[:, start : start + count]
        out[:, strip] = total.reshape(outs, -1, columns)


def _add_positions(image: Array, weights: Array, steps: Ints, out: Array) -> None:
    """Multiply all filter positions at once, and sum the shifted parts.

    The image is one long row of pixels, which each position sees at its own offset. Pixels beyond
    the end of a row are cut off.
    """
    outs, own, height, width = weights.shape
    matrix = np.ascontiguousarray(weights.transpose(2, 3, 0, 1)).reshape(-1, own)
    (rows, columns), length = out.shape[1:], image.shape[2]
    halo, wide = (height - 1) * steps[0], (width - 1) * steps[1]
    step = max(1, PRODUCTS // (len(matrix) * length))
    for top in range(0, rows, step):
        count = min(step, rows - top)
        seen = image[:, top : top + count + halo].reshape(own, -1)
        parts = (matrix @ seen).reshape(height, width, outs, -1)
        end = count * length - wide
        total = parts[0, 0, :, :end]
        for i, j in [*np.ndindex(height, width)][1:]:
            start = i * steps[0] * length + j * steps[1]
            total += parts[i, j, :, start : start + end]
        lines = parts[0, 0, :, : count * length].reshape(outs, count, length)
        out[:, top : top + count] = lines[:, :, :columns]


# -- a filter for each channel ---------------------------------------------------------------------


def _each_channel(x: Array, weights: Array, strides: Ints, steps: Ints, out: Array) -> None:
    """Apply filters of one channel to padded `x`: a product for some rows of a channel.

    The filter becomes a banded matrix with a row for each row of the result. It multiplies the
    columns of the image, side by side for each column of the filter. Zeros times infinities or NaN
    are NaN: if one shows up, sum over the positions of the filter instead.
    """
    times = out.shape[1] // x.shape[1]  # output channels for each input channel
    x = np.repeat(x, times, 1) if times > 1 else x
    (channels, _, height, width), (rows, columns) = weights.shape, out.shape[2:]
    most = max(1, ROWS // strides[0])
    count = math.ceil(rows / math.ceil(rows / most))
    span = (count - 1) * strides[0] + (height - 1) * steps[0] + 1
    bands = np.zeros((channels, count, width, span), x.dtype)
    for row, i in np.ndindex(count, height):
        bands[:, row, :, row * strides[0] + i * steps[0]] = weights[:, 0, i]
    own, between, down, along = x.strides
    inner = between, along * steps[1], down, own, along * strides[1]
    images = min(len(x), max(1, LINE // columns))
    some = max(1, BAND // (width * span * images * columns))
    firsts = range(0, len(x), images), range(0, channels, some), range(0, rows, count)
    for first, channel, top in itertools.product(*firsts):
        these, those = slice(first, first + images), slice(channel, channel + some)
        made = out[these, those, top : top + count]
        lines, used = made.shape[2], span - (count - made.shape[2]) * strides[0]
        seen = x[these, those, top * strides[0] :]
        shape = made.shape[1], width, used, len(made), columns
        windows = as_strided(seen, shape, inner, writeable=False)
        pixels = windows.reshape(shape[0], width * used, -1)
        matrices = bands[those, :lines, :, :used].reshape(shape[0], lines, -1)
        if len(made) == 1:
            np.matmul(matrices, pixels, out=made[0])
        else:
            product = np.matmul(matrices, pixels).reshape(shape[0], lines, len(made), columns)
            made[...] = product.transpose(2, 0, 1, 3)
        if np.isnan(made.min()):
            _by_positions(seen, weights[those, 0], strides, steps, made)


def _by_positions(x: Array, filters: Array, strides: Ints, steps: Ints, out: Array) -> None:
    """Apply filters of one channel as a sum over their positions."""
    rows, columns = out.shape[2:]
    out[...] = 0
    for i, j in np.ndindex(*filters.shape[1:]):
        top, left = i * steps[0], j * steps[1]
        down = slice(top, top + (rows - 1) * strides[0] + 1, strides[0])
        along = slice(left, left + (columns - 1) * strides[1] + 1, strides[1])
        out += x[:, :, down, along] * filters[:, i, j, None, None]


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
    """Compute pd.conv2d_transpose: each pixel adds its filter to the result."""
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
        if are_apart:  # adding to zeros would take twice as long
            out[..., down, along] = parts[:, :, :, i, j]
        else:
            out[..., down, along] += parts[:, :, :, i, j]
    out = out[..., pads[0][0] : pads[0][0] + wanted[0], pads[1][0] : pads[1][0] + wanted[1]]
    out = out.reshape(batch, groups * outs, *wanted)
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out
