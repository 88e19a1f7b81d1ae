"""Convolution and pooling over two or three spatial dimensions in JAX."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.conv import (
    Conv2d,
    Conv3d,
    DepthwiseConv2d,
    Pool2d,
    Pool3d,
    explicit_pads,
    filter_sizes,
    is_channels_last,
    spatial_sizes,
    used_dilations,
    window_output,
)
from graphopt.lowering.kernels.convolution import Window, convolve
from graphopt.lowering.kernels.pooling import largest
from graphopt.lowering.ops.activation import relu
from graphopt.lowering.ops.base import Array, is_floating, wide
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]
Bounds = np.ndarray[Any, Any]


def convolution_layouts(
    spatial: int, data_format: str, filter_format: str = ""
) -> tuple[str, str, str]:
    """JAX's dimension names of the input, the filter and the output."""
    axes = "DHW"[-spatial:]
    image = f"N{axes}C" if is_channels_last(data_format) else f"NC{axes}"
    return image, filter_format if filter_format == "HWIO" else f"OI{axes}", image


@lowers(Conv2d, Conv3d)
def conv2d(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    algorithm: str,
    filter_format: str,
) -> Array:
    sizes = spatial_sizes(input.shape, data_format)
    dilations = used_dilations(dilations, padding_algorithm)
    kernel = filter_sizes(filter.shape, filter_format)[2:]
    pads = explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, dilations)
    if algorithm:
        filters = filter if filter_format == "HWIO" else jnp.transpose(filter, (2, 3, 1, 0))
        window = Window(kernel, strides, pads, dilations)
        last = is_channels_last(data_format)
        return convolve(algorithm, input, filters, window, channels_last=last)
    return lax.conv_general_dilated(
        input,
        filter,
        strides,
        pads,
        rhs_dilation=dilations,
        dimension_numbers=convolution_layouts(len(kernel), data_format, filter_format),
        feature_group_count=groups,
    )


@lowers(DepthwiseConv2d)
def depthwise_conv2d(
    input: Array,
    filter: Array,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    algorithm: str,
    filter_format: str,
    fuse_relu_before_depthwise_conv: bool,
) -> Array:
    return conv2d(
        relu(input) if fuse_relu_before_depthwise_conv else input,
        filter,
        strides,
        paddings,
        padding_algorithm,
        dilations,
        groups,
        data_format,
        algorithm,
        filter_format,
    )


@dataclass(frozen=True)
class Windows:
    """The pooling windows along one dimension.

    `starts` and `stops` bound the elements of each; `counts` is what an average divides by. When
    all windows are alike, `slide` says how: (size, stride, (padding before, after)).
    """

    starts: Bounds
    stops: Bounds
    counts: Bounds
    slide: tuple[int, int, tuple[int, int]] | None


def sliding(
    size: int, window: int, stride: int, pads: tuple[int, int], ceil_mode: bool, exclusive: bool
) -> Windows:
    """Windows of one size; `exclusive` averages leave the padding out of the count."""
    number = window_output(size, window, stride, pads, ceil_mode)
    first = np.arange(number) * stride - pads[0]
    starts, stops = np.clip(first, 0, size), np.clip(first + window, 0, size)
    # Paddle counts the padding before a dimension, and as much after it whatever `pads[1]` is
    padded = np.minimum(first + window, size + pads[0]) - first
    counts = stops - starts if exclusive else padded
    after = max(int(first[-1]) + window - size, pads[1])
    return Windows(starts, stops, counts, (window, stride, (pads[0], after)))


def adaptive_windows(size: int, number: int) -> Windows:
    """`number` windows that cover a dimension, overlapping when it does not divide."""
    index = np.arange(number)
    starts, stops = index * size // number, -(-(index + 1) * size // number)
    each = size // number
    slide = (each, each, (0, 0)) if size and size % number == 0 else None
    return Windows(starts, stops, stops - starts, slide)


@lowers(Pool2d, Pool3d)
def pool2d(
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
    algorithm: str,
) -> Array:
    sizes, rank = spatial_sizes(x.shape, data_format), len(kernel_size)
    first = 1 if is_channels_last(data_format) else 2
    if global_pooling or adaptive:
        numbers = (1,) * rank if global_pooling else kernel_size
        # -1 keeps a dimension
        wanted = [(size, n if n >= 0 else size) for size, n in zip(sizes, numbers, strict=True)]
        windows = [adaptive_windows(*pair) for pair in wanted]
    else:
        ones = (1,) * rank
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel_size, strides, ones)
        shapes = zip(sizes, kernel_size, strides, pads, strict=True)
        windows = [sliding(*shape, ceil_mode, exclusive) for shape in shapes]
    slides = [window.slide for window in windows if window.slide is not None]
    if algorithm == "shifts" and len(slides) == rank:
        one = (1, 1, (0, 0))
        return largest(x, (*[one] * first, *slides, *[one] * (x.ndim - first - rank)))
    if pooling_type == "max":
        return reduce_windows(x, windows, first, lax.max, _lowest(x))
    total = reduce_windows(wide(x), windows, first, lax.add, 0)
    outer = functools.reduce(np.multiply.outer, [window.counts for window in windows])
    counts = outer.astype(total.dtype)
    return (total / (counts[..., None] if first == 1 else counts)).astype(x.dtype)


def _lowest(x: Array) -> float:
    return -np.inf if is_floating(x) else int(jnp.iinfo(x.dtype).min)


def reduce_windows(
    x: Array, windows: Sequence[Windows], first: int, combine: Any, neutral: float
) -> Array:
    """Combine the elements of each window of the dimensions of x from `first` on."""
    start = np.asarray(neutral, x.dtype)
    shape, strides, pads = [1] * x.ndim, [1] * x.ndim, [(0, 0)] * x.ndim
    for axis, window in enumerate(windows, start=first):
        if window.slide is None:
            x = _reduce_uneven(x, window, axis, combine, start)
        else:
            shape[axis], strides[axis], pads[axis] = window.slide
    return lax.reduce_window(x, start, combine, shape, strides, pads)


def _reduce_uneven(x: Array, windows: Windows, axis: int, combine: Any, start: Any) -> Array:
    """Gather windows of different lengths, padded to the longest, and reduce each."""
    longest = int(max(windows.stops - windows.starts))
    positions = windows.starts[:, None] + np.arange(longest)
    inside = positions < windows.stops[:, None]
    gathered = jnp.take(x, np.where(inside, positions, 0), axis)
    mask = np.expand_dims(inside, [i for i in range(gathered.ndim) if i not in (axis, axis + 1)])
    return lax.reduce(jnp.where(mask, gathered, start), start, combine, (axis + 1,))
