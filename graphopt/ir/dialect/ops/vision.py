"""Resizing, sampling and unfolding of images."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, numbers, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.conv import (
    Conv2d,
    check_steps,
    explicit_pads,
    is_channels_last,
    spatial_sizes,
    window_output,
    with_spatial,
)
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
    show,
    tensor,
)

INTERPOLATIONS = ("nearest", "linear", "bicubic")


def resized(sizes: Sequence[int], size: Sequence[int], scale: Sequence[float]) -> tuple[int, ...]:
    """The new spatial sizes: those given, or the old ones times the scales."""
    if size:
        return tuple(size)
    scales = scale if len(scale) == len(sizes) else tuple(scale) * len(sizes)
    if not scale:
        raise ProgramError("interpolate needs sizes or scales")
    return tuple(
        UNKNOWN if old == UNKNOWN else int(old * by) for old, by in zip(sizes, scales, strict=True)
    )


@irdl_op_definition
class Interpolate(OpaqueOp):
    """Images in another size. Paddle: nearest_interp_v2, bilinear_interp_v2 and the like.

    `linear` works along each of one to three axes. `align_corners` lets the centres of the outer
    pixels meet; without it their edges meet, or (linear with `align_mode` 1) their first corners.
    The size is that of the images `like`, if there are any, else `size`, else by `scale`.
    """

    name = "pd.interpolate"
    x = operand_def(Tensor)
    like = opt_operand_def(Tensor)
    out = result_def(Tensor)
    size = integers(())
    scale = numbers(())
    mode = string("nearest")
    align_corners = flag(True)
    align_mode = integer(1)
    data_layout = string("NCHW")

    @staticmethod
    def infer(
        x: Tensor,
        like: Tensor | None,
        size: Sequence[int],
        scale: Sequence[float],
        mode: str,
        data_layout: str,
    ) -> Tensor:
        shape = shape_of(x)
        if mode not in INTERPOLATIONS:
            raise ProgramError(f"the mode must be one of {INTERPOLATIONS}, found '{mode}'")
        if not 3 <= len(shape) <= 5 or not dtype_of(x).is_floating:
            raise ProgramError("interpolate needs floating-point tensors of rank 3, 4 or 5")
        last = is_channels_last(data_layout)
        spatial = shape[1:-1] if last else shape[2:]
        if size and len(size) != len(spatial):
            raise ProgramError(f"the size {list(size)} does not fit {list(shape)}")
        if like is not None:
            size = spatial_sizes(shape_of(like), data_layout)
        new = resized(spatial, size, scale)
        if any(dim < 1 and dim != UNKNOWN for dim in new):
            raise ProgramError(f"the new size {list(new)} must be positive")
        channels = shape[-1 if last else 1]
        return tensor(with_spatial(shape, channels, new, data_layout), dtype_of(x))


@irdl_op_definition
class Unfold(OpaqueOp):
    """The windows of images as columns [n, c * kh * kw, windows]. Paddle: unfold."""

    name = "pd.unfold"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    kernel_sizes = integers()
    strides = integers((1, 1))
    paddings = integers((0, 0, 0, 0))
    dilations = integers((1, 1))

    @staticmethod
    def infer(
        x: Tensor,
        kernel_sizes: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        dilations: Sequence[int],
    ) -> Tensor:
        shape = shape_of(x)
        if len(shape) != 4:
            raise ProgramError(f"unfold needs images [n, c, h, w], found {list(shape)}")
        check_steps("kernel size", kernel_sizes)
        check_steps("stride", strides)
        check_steps("dilation", dilations)
        pads = unfold_pads(paddings, kernel_sizes)
        counts = [
            window_output(size, d * (k - 1) + 1, stride, pad, False)
            for size, k, stride, pad, d in zip(
                shape[2:], kernel_sizes, strides, pads, dilations, strict=True
            )
        ]
        return like(x, shape=(shape[0], product((shape[1], *kernel_sizes)), product(counts)))


@irdl_op_definition
class Fold(OpaqueOp):
    """Images in which the windows, given as columns, are added up. Paddle: fold."""

    name = "pd.fold"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    output_sizes = integers()
    kernel_sizes = integers()
    strides = integers((1, 1))
    paddings = integers((0, 0, 0, 0))
    dilations = integers((1, 1))

    @staticmethod
    def infer(
        x: Tensor,
        output_sizes: Sequence[int],
        kernel_sizes: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        dilations: Sequence[int],
    ) -> Tensor:
        shape = shape_of(x)
        if len(shape) != 3:
            raise ProgramError(f"fold needs columns [n, c * kh * kw, windows], found {list(shape)}")
        window = product(kernel_sizes)
        channels = UNKNOWN if shape[1] == UNKNOWN else shape[1] // window
        if shape[1] != UNKNOWN and shape[1] % window:
            raise ProgramError(f"{shape[1]} rows are not a multiple of the {window} of a window")
        image = like(x, shape=(shape[0], channels, *output_sizes))
        wanted = shape_of(Unfold.infer(image, kernel_sizes, strides, paddings, dilations))
        if UNKNOWN not in (shape[2], wanted[2]) and shape[2] != wanted[2]:
            raise ProgramError(
                f"an image of {list(output_sizes)} has {wanted[2]} windows, but there are "
                f"{shape[2]} columns"
            )
        return image


def unfold_pads(paddings: Sequence[int], kernel: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Padding before and after rows and columns; four numbers are top, left, bottom, right."""
    if len(paddings) == 4:
        top, left, bottom, right = paddings
        return (top, bottom), (left, right)
    return explicit_pads(paddings, "EXPLICIT", (), kernel, (), ())


PADDING_MODES = ("zeros", "border", "reflection")


@irdl_op_definition
class GridSample(OpaqueOp):
    """Images read at points [n, h, w, 2] of the square from -1 to 1, or volumes at points
    [n, d, h, w, 3] of the cube. Paddle: grid_sampler."""

    name = "pd.grid_sample"
    x = operand_def(Tensor)
    grid = operand_def(Tensor)
    out = result_def(Tensor)
    mode = string("bilinear")
    padding_mode = string("zeros")
    align_corners = flag(True)

    @staticmethod
    def infer(x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> Tensor:
        same_dtype(x, grid)
        image, points = shape_of(x), shape_of(grid)
        rank = len(image)
        if rank not in (4, 5) or len(points) != rank or points[-1] not in (rank - 2, UNKNOWN):
            raise ProgramError(
                f"grid_sample needs images [n, c, h, w] and a grid [n, h, w, 2], or volumes and a "
                f"grid [n, d, h, w, 3], found {list(image)} and {list(points)}"
            )
        if mode not in ("bilinear", "nearest") or padding_mode not in PADDING_MODES:
            raise ProgramError(f"grid_sample knows no '{mode}' with padding '{padding_mode}'")
        return like(x, shape=(*image[:2], *points[1:-1]))


@irdl_op_definition
class AffineGrid(OpaqueOp):
    """The points where a transform [n, 2, 3] (or [n, 3, 4]) takes a grid. Paddle: affine_grid."""

    name = "pd.affine_grid"
    theta = operand_def(Tensor)
    out = result_def(Tensor)
    output_shape = integers()
    align_corners = flag(True)

    @staticmethod
    def infer(theta: Tensor, output_shape: Sequence[int]) -> Tensor:
        axes = len(output_shape) - 2
        if axes not in (2, 3) or rank_of(theta) != 3 or shape_of(theta)[1:] != (axes, axes + 1):
            raise ProgramError(
                f"an output of {list(output_shape)} needs a transform [n, {axes}, {axes + 1}], "
                f"found {list(shape_of(theta))}"
            )
        return like(theta, shape=(shape_of(theta)[0], *output_shape[2:], axes))


@irdl_op_definition
class DeformableConv(OpaqueOp):
    """Convolution whose windows read at places moved by offsets, weighed by a mask if there is one.

    The offsets [n, 2 * deformable_groups * kh * kw, h, w] hold rows and columns in turn. Paddle:
    deformable_conv, deformable_conv_v1 (without a mask).
    """

    name = "pd.deformable_conv"
    x = operand_def(Tensor)
    offset = operand_def(Tensor)
    filter = operand_def(Tensor)
    mask = opt_operand_def(Tensor)
    out = result_def(Tensor)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    dilations = integers((1, 1))
    deformable_groups = integer(1)
    groups = integer(1)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        offset: Tensor,
        filter: Tensor,
        mask: Tensor | None,
        strides: Sequence[int],
        paddings: Sequence[int],
        dilations: Sequence[int],
        deformable_groups: int,
        groups: int,
    ) -> Tensor:
        same_dtype(x, offset, filter, *([] if mask is None else [mask]))
        out = Conv2d.infer(x, filter, strides, paddings, "EXPLICIT", dilations, groups, "NCHW")
        places = product((deformable_groups, *shape_of(filter)[2:]))
        pairs_of = product((2, places))
        for what, value, channels in (("offset", offset, pairs_of), ("mask", mask, places)):
            if value is None:
                continue
            wanted = (shape_of(x)[0], channels, *shape_of(out)[2:])
            pairs = zip(shape_of(value), wanted, strict=False)
            if rank_of(value) != 4 or any(UNKNOWN not in p and p[0] != p[1] for p in pairs):
                raise ProgramError(f"'{what}' should be {list(wanted)}, found {show(value)}")
        return out
