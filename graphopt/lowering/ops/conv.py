"""Convolutions over two or three spatial dimensions in JAX.

A transposed convolution is a convolution of the dilated input with the mirrored filter.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import conv as ops
from graphopt.lowering.kernels import onednn
from graphopt.lowering.kernels.convolution import (
    FilterWindow,
    convolve,
    convolve_by_xla,
    convolve_planes,
)
from graphopt.lowering.kernels.transposed import (
    transposed_by_group,
    transposed_conv,
    transposed_tiles,
)
from graphopt.lowering.ops.activation import relu
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.vision import _neighbours, _read
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]


def convolution_layouts(
    spatial: int, data_format: str, filter_format: str = ""
) -> tuple[str, str, str]:
    """Compose JAX's dimension names of the input, the filter and the output."""
    axes = "DHW"[-spatial:]
    image = f"N{axes}C" if ops.is_channels_last(data_format) else f"NC{axes}"
    return image, filter_format if filter_format == "HWIO" else f"OI{axes}", image


@lowers(ops.Conv2d, ops.Conv3d)
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
    kernel: str = "",
) -> Array:
    sizes = ops.spatial_sizes(input.shape, data_format)
    dilations = ops.used_dilations(dilations, padding_algorithm)
    positions = ops.filter_sizes(filter.shape, filter_format)[2:]
    pads = ops.explicit_pads(paddings, padding_algorithm, sizes, positions, strides, dilations)
    if algorithm == "planes":
        window = FilterWindow(positions, strides, pads, dilations)
        last = ops.is_channels_last(data_format)
        return convolve_planes(input, filter, window, groups, channels_last=last)
    if algorithm or kernel:
        filters = filter if filter_format == "HWIO" else jnp.transpose(filter, (2, 3, 1, 0))
        window = FilterWindow(positions, strides, pads, dilations)
        last = ops.is_channels_last(data_format)
        if kernel == onednn.ONEDNN:
            images = input if last else jnp.moveaxis(input, 1, 3)
            if algorithm == "matmul":
                (pixels,) = window.taps(images)
                out = onednn.matmul(pixels, filters[0, 0], False, False)
            elif groups > 1:
                out = onednn.convolve_groups(images, filters, window)
            else:
                out = onednn.convolve(images, filters, window, algorithm)
            return out if last else jnp.moveaxis(out, 3, 1)
        return convolve(algorithm, input, filters, window, channels_last=last)
    layout = convolution_layouts(len(positions), data_format, filter_format)
    return convolve_by_xla(input, filter, strides, pads, layout, dilations=dilations, groups=groups)


@lowers(ops.DepthwiseConv2d)
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


@lowers(ops.Conv2dTranspose, ops.Conv3dTranspose)
def conv_transpose(
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
    sizes, kernel = ops.spatial_sizes(input.shape, data_format), filter.shape[2:]
    dilations = ops.used_dilations(dilations, padding_algorithm)
    pads = ops.explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, dilations)
    wanted = ops.transposed_sizes(
        sizes, kernel, strides, pads, dilations, output_padding, output_size
    )
    around: list[tuple[int, int]] = []
    # the padding of the convolution from the result to the images
    back: list[tuple[int, int]] = []
    for size, k, stride, (before, _), d, out in zip(
        sizes, kernel, strides, pads, dilations, wanted, strict=True
    ):
        low, reach = d * (k - 1) - before, (size - 1) * stride + 1
        around.append((low, out + d * (k - 1) - reach - low))
        back.append((before, reach + d * (k - 1) - out - before))

    first = 1 if ops.is_channels_last(data_format) else 2
    tiles = [size * k for size, k in zip(sizes, kernel, strict=True)]
    if (
        (*wanted, *strides) == (*tiles, *kernel)
        and set(dilations) == {1}
        and not any(map(any, pads))
    ):
        return transposed_tiles(input, filter, groups, first)

    def plain(images: Array, filters: Array, groups: int = 1) -> Array:
        return convolve_by_xla(
            images,
            _mirror_filter(filters, groups),
            (1,) * len(kernel),
            around,
            convolution_layouts(len(kernel), data_format),
            dilations=dilations,
            groups=groups,
            spread=strides,
        )

    def one(images: Array, filters: Array) -> Array:
        if len(kernel) != 2:
            return plain(images, filters)
        window = FilterWindow(tuple(kernel), tuple(strides), tuple(back), tuple(dilations))
        return transposed_conv(plain, window, first, images, filters)

    if groups == 1:
        return one(input, filter)
    return lax.platform_dependent(
        input,
        filter,
        cpu=partial(transposed_by_group, one, groups, first),
        default=partial(plain, groups=groups),
    )


def _mirror_filter(filter: Array, groups: int) -> Array:
    """Reverse the filter in space, as [out, in / groups, …]."""
    inputs, outputs, *kernel = filter.shape
    apart = filter.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    joined = apart.reshape(groups * outputs, inputs // groups, *kernel)
    return lax.rev(joined, range(2, joined.ndim))


@lowers(ops.DeformableConv)
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
    n, channels = x.shape[:2]
    kernel, size = filter.shape[2:], offset.shape[2:]
    parts, points = deformable_groups, filter.shape[2] * filter.shape[3]
    moved = wide(offset).reshape(n * parts, points, 2, *size)
    places: list[Array] = []
    around = ops.given_pads(paddings, len(kernel))
    for axis in range(2):
        tap = np.arange(kernel[axis]) * dilations[axis]
        start = np.arange(size[axis]) * strides[axis] - around[axis][0]
        own = np.expand_dims(tap, 1 - axis) + np.zeros(kernel)
        steps = np.expand_dims(start, 1 - axis) + np.zeros(size)
        base = own.reshape(-1, 1, 1) + steps
        places.append(moved[:, :, axis] + base.astype(moved.dtype))
    images = wide(x).reshape(n * parts, channels // parts, *x.shape[2:])
    rows, columns = map(_neighbours, places)
    corners = [
        _read(images, [row, column]) * (a * b)[:, None] for row, a in rows for column, b in columns
    ]
    read = sum(corners[1:], corners[0])
    if mask is not None:
        read = read * wide(mask).reshape(n * parts, 1, points, *size)
    apart = read.reshape(n, groups, channels // groups, points, *size)
    weights = wide(filter).reshape(groups, filter.shape[0] // groups, channels // groups, points)
    out = jnp.einsum("ngckhw,gmck->ngmhw", apart, weights)
    return lax.collapse(out, 1, 3).astype(x.dtype)
