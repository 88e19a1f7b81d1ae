"""Transposed convolutions in JAX: those of a dilated input with the mirrored filter."""

from __future__ import annotations

from jax import lax

from graphopt.ir.dialect.ops.conv import explicit_pads, spatial_sizes, used_dilations
from graphopt.ir.dialect.ops.conv_transpose import (
    Conv2dTranspose,
    Conv3dTranspose,
    transposed_sizes,
)
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.conv import convolution_layouts
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]


@lowers(Conv2dTranspose, Conv3dTranspose)
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
    sizes, kernel = spatial_sizes(input.shape, data_format), filter.shape[2:]
    dilations = used_dilations(dilations, padding_algorithm)
    pads = explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, dilations)
    wanted = transposed_sizes(sizes, kernel, strides, pads, dilations, output_padding, output_size)
    around: list[tuple[int, int]] = []
    for size, k, stride, (before, _), d, out in zip(
        sizes, kernel, strides, pads, dilations, wanted, strict=True
    ):
        low = d * (k - 1) - before
        around.append((low, out + d * (k - 1) - (size - 1) * stride - 1 - low))
    return lax.conv_general_dilated(
        input,
        _mirrored(filter, groups),
        (1,) * len(kernel),
        around,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=convolution_layouts(len(kernel), data_format),
        feature_group_count=groups,
    )


def _mirrored(filter: Array, groups: int) -> Array:
    """The filter reversed in space, as [out, in / groups, …]."""
    inputs, outputs, *kernel = filter.shape
    apart = filter.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    joined = apart.reshape(groups * outputs, inputs // groups, *kernel)
    return lax.rev(joined, range(2, joined.ndim))
