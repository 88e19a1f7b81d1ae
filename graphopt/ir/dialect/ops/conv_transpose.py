"""The transposes of convolutions, which enlarge images and volumes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, integers, string
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.conv import (
    check_convolution,
    explicit_pads,
    spatial_sizes,
    used_dilations,
    with_spatial,
)
from graphopt.ir.dialect.types import UNKNOWN, Tensor, like, same_dtype, shape_of


def transposed_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    output_size: Sequence[int],
) -> tuple[int, ...]:
    """The spatial sizes of the result; `output_size` chooses among those with one input size."""
    extra = output_padding or (0,) * len(sizes)
    least = [
        UNKNOWN if UNKNOWN in (size, k) else (size - 1) * s - sum(pad) + d * (k - 1) + 1
        for size, k, s, pad, d in zip(sizes, kernel, strides, pads, dilations, strict=True)
    ]
    if not output_size:
        return tuple(
            UNKNOWN if size == UNKNOWN else size + more
            for size, more in zip(least, extra, strict=True)
        )
    for low, want, stride in zip(least, output_size, strides, strict=True):
        if low != UNKNOWN and not low <= want < low + stride:
            raise ProgramError(
                f"output_size {list(output_size)} must be from {least} to less than a stride above"
            )
    return tuple(output_size)


class ConvTransposeBase(OpaqueOp, ABC):
    """The transpose of a convolution, with filters [in, out / groups, height, width]."""

    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    out = result_def(Tensor)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT")
    dilations = integers((1, 1))
    groups = integer(1)
    output_padding = integers(())
    output_size = integers(())
    data_format = string("NCHW")

    @staticmethod
    def infer(
        input: Tensor,
        filter: Tensor,
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        dilations: Sequence[int],
        groups: int,
        output_padding: Sequence[int],
        output_size: Sequence[int],
        data_format: str,
    ) -> Tensor:
        same_dtype(input, filter)
        x, w = shape_of(input), shape_of(filter)
        inputs = (*w, 1)[0]
        if inputs != UNKNOWN and inputs % groups:
            raise ProgramError(f"{inputs} input channels cannot be split in {groups} groups")
        own = UNKNOWN if inputs == UNKNOWN else inputs // groups
        check_convolution(x, w, len(strides), groups, own, data_format)
        sizes, kernel = spatial_sizes(x, data_format), w[2:]
        dilations = used_dilations(dilations, padding_algorithm)
        pads = explicit_pads(paddings, padding_algorithm, sizes, kernel, strides, dilations)
        out = transposed_sizes(sizes, kernel, strides, pads, dilations, output_padding, output_size)
        channels = UNKNOWN if w[1] == UNKNOWN else w[1] * groups
        return like(input, shape=with_spatial(x, channels, out, data_format))


@irdl_op_definition
class Conv2dTranspose(ConvTransposeBase):
    """Transposed convolution of images. Paddle: conv2d_transpose."""

    name = "pd.conv2d_transpose"


@irdl_op_definition
class Conv3dTranspose(ConvTransposeBase):
    """Transposed convolution of volumes. Paddle: conv3d_transpose."""

    name = "pd.conv3d_transpose"
    strides = integers((1, 1, 1))
    paddings = integers((0, 0, 0))
    dilations = integers((1, 1, 1))
    data_format = string("NCDHW")
