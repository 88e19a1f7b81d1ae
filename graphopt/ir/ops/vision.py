"""Resizing, sampling and unfolding of images."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.attrs import flag, integer, integers, numbers, string
from graphopt.ir.ops.base import PureOp
from graphopt.ir.ops.conv import (
    explicit_pads,
    is_channels_last,
    spatial_sizes,
    window_output,
    with_spatial,
)
from graphopt.ir.types import (
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
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
class Interpolate(PureOp):
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
class Unfold(PureOp):
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
        pads = unfold_pads(paddings, kernel_sizes)
        counts = [
            window_output(size, d * (k - 1) + 1, stride, pad, False)
            for size, k, stride, pad, d in zip(
                shape[2:], kernel_sizes, strides, pads, dilations, strict=True
            )
        ]
        return like(x, shape=(shape[0], product((shape[1], *kernel_sizes)), product(counts)))


def unfold_pads(paddings: Sequence[int], kernel: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Padding before and after rows and columns; four numbers are top, left, bottom, right."""
    if len(paddings) == 4:
        top, left, bottom, right = paddings
        return (top, bottom), (left, right)
    return explicit_pads(paddings, "EXPLICIT", (), kernel, (), ())


PADDING_MODES = ("zeros", "border", "reflection")


@irdl_op_definition
class GridSample(PureOp):
    """Images read at points [n, h, w, 2] of the square from -1 to 1. Paddle: grid_sampler."""

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
        if len(image) != 4 or len(points) != 4 or points[3] not in (2, UNKNOWN):
            raise ProgramError(
                f"grid_sample needs images [n, c, h, w] and a grid [n, h, w, 2], "
                f"found {list(image)} and {list(points)}"
            )
        if mode not in ("bilinear", "nearest") or padding_mode not in PADDING_MODES:
            raise ProgramError(f"grid_sample knows no '{mode}' with padding '{padding_mode}'")
        return like(x, shape=(image[0], image[1], points[1], points[2]))


@irdl_op_definition
class AffineGrid(PureOp):
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
