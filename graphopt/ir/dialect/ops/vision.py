"""Resizing, sampling and unfolding of images, and their pixels and channels in another order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, number, numbers, string
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp
from graphopt.ir.dialect.ops.conv import (
    check_steps,
    given_pads,
    is_channels_last,
    spatial_sizes,
    window_output,
    with_spatial,
)
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
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
# the integer dtypes that each mode accepts
WHOLE_PIXELS = {"nearest": ("uint8", "int32", "int64"), "linear": ("uint8",)}


def resized_sizes(
    sizes: Sequence[int], size: Sequence[int], scale: Sequence[float], single: bool = False
) -> tuple[int, ...]:
    """Compute the new spatial sizes: `size`, or the old sizes times the scales, truncated.

    With a `single` product, in float32, 10 times 0.7 is 7; the exact product is less, because 0.7
    in float32 is less than 0.7.
    """
    if size:
        return tuple(size)
    scales = tuple(scale) * len(sizes) if len(scale) == 1 else scale
    if len(scales) != len(sizes):
        raise ProgramError(
            f"interpolate needs {len(sizes)} sizes, or one scale or as many, found {list(scale)}"
        )
    return tuple(
        UNKNOWN if old == UNKNOWN else int(np.float32(old) * np.float32(by) if single else old * by)
        for old, by in zip(sizes, scales, strict=True)
    )


@irdl_op_definition
class Interpolate(OpaqueOp):
    """Images in another size. Paddle: nearest_interp_v2, bilinear_interp_v2 and the like.

    `linear` works along each of one to three axes. `align_corners` aligns the centers of the outer
    pixels; without it their edges are aligned, or (linear with `align_mode` 1) their first corners.
    The size comes from the images `like`, if present, else from `size`, else from `scale`. A
    `scale` also sets the distance of the sampled positions, whatever the size, unless the sizes set
    it (`spaced_by_size`), as in Paddle 1. Before Paddle 3 it was a factor in float32
    (`single_scale`).
    """

    name = "pd.interpolate"
    x = operand_def(TENSOR)
    like = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    size = integers(())
    scale = numbers(())
    single_scale = flag(False)
    spaced_by_size = flag(False)
    mode = string("nearest", of=INTERPOLATIONS)
    align_corners = flag(True)
    align_mode = integer(1)
    data_layout = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(
        x: Tensor,
        like: Tensor | None,
        size: Sequence[int],
        scale: Sequence[float],
        single_scale: bool,
        mode: str,
        data_layout: str,
    ) -> Tensor:
        shape = shape_of(x)
        if mode not in INTERPOLATIONS:
            raise ProgramError(f"the mode must be one of {INTERPOLATIONS}, found '{mode}'")
        if not 3 <= len(shape) <= 5:
            raise ProgramError(f"interpolate needs a tensor of rank 3, 4 or 5, found {len(shape)}")
        if not dtype_of(x).is_floating and dtype_of(x) not in WHOLE_PIXELS.get(mode, ()):
            raise OperandError(f"interpolate by '{mode}' is not for {dtype_of(x)}; use float32")
        last = is_channels_last(data_layout)
        spatial = shape[1:-1] if last else shape[2:]
        if size and len(size) != len(spatial):
            raise ProgramError(f"the size {list(size)} does not fit {list(shape)}")
        if like is not None:
            size = spatial_sizes(shape_of(like), data_layout)
        new = resized_sizes(spatial, size, scale, single_scale)
        if any(dim < 1 and dim != UNKNOWN for dim in new):
            raise ProgramError(f"the new size {list(new)} must be positive")
        channels = shape[-1 if last else 1]
        return tensor(with_spatial(shape, channels, new, data_layout), dtype_of(x))

    @staticmethod
    def infer_partly(x: Tensor, size: Partial, data_layout: str) -> Tensor:
        shape = shape_of(x)
        known = size if size is not None and len(size) == len(shape) - 2 else (None,) * 3
        new = [UNKNOWN if dim is None else dim for dim in known[: len(shape) - 2]]
        channels = shape[-1 if is_channels_last(data_layout) else 1]
        return tensor(with_spatial(shape, channels, new, data_layout), dtype_of(x))


@irdl_op_definition
class Unfold(OneTensor, OpaqueOp):
    """The windows of images as columns [n, c * kh * kw, windows]. Paddle: unfold."""

    name = "pd.unfold"
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
        check_steps("kernel size", kernel_sizes, 2)
        check_steps("stride", strides, 2)
        check_steps("dilation", dilations, 2)
        pads = unfold_pads(paddings, kernel_sizes)
        counts = [
            window_output(size, d * (k - 1) + 1, stride, pad, False)
            for size, k, stride, pad, d in zip(
                shape[2:], kernel_sizes, strides, pads, dilations, strict=True
            )
        ]
        return like(x, shape=(shape[0], product((shape[1], *kernel_sizes)), product(counts)))


@irdl_op_definition
class Fold(OneTensor, OpaqueOp):
    """Images in which the windows, given as columns, are added up. Paddle: fold."""

    name = "pd.fold"
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
        check_steps("kernel size", kernel_sizes, 2)
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
    """Pair the padding of rows and of columns; four numbers are top, left, bottom, right."""
    if len(paddings) == 4:
        top, left, bottom, right = paddings
        return (top, bottom), (left, right)
    return given_pads(paddings, len(kernel))


PADDING_MODES = ("zeros", "border", "reflection")


@irdl_op_definition
class GridSample(OpaqueOp):
    """Images read at points [n, h, w, 2] of the square from -1 to 1, or volumes at points
    [n, d, h, w, 3] of the cube. Paddle: grid_sampler."""

    name = "pd.grid_sample"
    x = operand_def(TENSOR)
    grid = operand_def(TENSOR)
    out = result_def(TENSOR)
    mode = string("bilinear", of=("bilinear", "nearest"))
    padding_mode = string("zeros", of=PADDING_MODES)
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
    theta = operand_def(TENSOR)
    out = result_def(TENSOR)
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

    @staticmethod
    def infer_partly(theta: Tensor, output_shape: Partial) -> Tensor:
        if output_shape is None:
            axes = shape_of(theta)[1] if rank_of(theta) == 3 else UNKNOWN
            output_shape = (None,) * (2 + axes)
        sizes = tuple(UNKNOWN if size is None else size for size in output_shape)
        return AffineGrid.infer(theta, sizes)


def _sizes(x: Tensor, data_format: str) -> tuple[int, int, int, int]:
    """Return number, channels, height and width of images."""
    if rank_of(x) != 4:
        raise ProgramError(f"expected images of rank 4, found {show(x)}")
    n, *rest = shape_of(x)
    channels = rest.pop(-1 if is_channels_last(data_format) else 0)
    return n, channels, rest[0], rest[1]


def _images(x: Tensor, data_format: str, n: int, channels: int, *size: int) -> Tensor:
    last = is_channels_last(data_format)
    return like(x, shape=(n, *size, channels) if last else (n, channels, *size))


def _over(size: int, factor: int, what: str) -> int:
    if factor < 1 or (size != UNKNOWN and size % factor):
        raise ProgramError(f"{what} {size} is not a multiple of {factor}")
    return size if size == UNKNOWN else size // factor


def _times(size: int, factor: int) -> int:
    return size if size == UNKNOWN else size * factor


@irdl_op_definition
class PixelShuffle(OneTensor, PureOp):
    """Channels as pixels: [n, c r r, h, w] gives [n, c, h r, w r]. Paddle: pixel_shuffle."""

    name = "pd.pixel_shuffle"
    traits = traits_def(Movement())
    upscale_factor = integer(1)
    data_format = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(x: Tensor, upscale_factor: int, data_format: str) -> Tensor:
        n, channels, *size = _sizes(x, data_format)
        channels = _over(channels, upscale_factor * upscale_factor, "the number of channels")
        return _images(x, data_format, n, channels, *(_times(d, upscale_factor) for d in size))


@irdl_op_definition
class PixelUnshuffle(OneTensor, PureOp):
    """Pixels as channels: [n, c, h r, w r] gives [n, c r r, h, w]. Paddle: pixel_unshuffle."""

    name = "pd.pixel_unshuffle"
    traits = traits_def(Movement())
    downscale_factor = integer(1)
    data_format = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(x: Tensor, downscale_factor: int, data_format: str) -> Tensor:
        r = downscale_factor
        n, channels, *size = _sizes(x, data_format)
        size = [_over(d, r, "the size") for d in size]
        return _images(x, data_format, n, _times(channels, r * r), *size)


@irdl_op_definition
class ChannelShuffle(OneTensor, PureOp):
    """The first channel of each group, then the second of each, ... Paddle: channel_shuffle."""

    name = "pd.channel_shuffle"
    traits = traits_def(Movement())
    groups = integer(1)
    data_format = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(x: Tensor, groups: int, data_format: str) -> Tensor:
        _over(_sizes(x, data_format)[1], groups, "the number of channels")
        return x


@irdl_op_definition
class SpaceToDepth(OneTensor, PureOp):
    """Blocks of pixels as channels, in the order of Paddle's operator. Paddle: space_to_depth."""

    name = "pd.space_to_depth"
    traits = traits_def(Movement())
    blocksize = integer()

    @staticmethod
    def infer(x: Tensor, blocksize: int) -> Tensor:
        n, channels, *size = _sizes(x, "NCHW")
        squared = blocksize * blocksize
        _over(channels, squared, "the number of channels")
        sides = [_over(d, blocksize, "the size") for d in size]
        return like(x, shape=(n, _times(channels, squared), *sides))


@irdl_op_definition
class TemporalShift(OneTensor, OpaqueOp):
    """Some channels of frames [n t, c, h, w] from the last frame, some from the next.

    Paddle: temporal_shift.
    """

    name = "pd.temporal_shift"
    seg_num = integer()
    shift_ratio = number(0.25)
    data_format = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(x: Tensor, seg_num: int, shift_ratio: float, data_format: str) -> Tensor:
        _over(_sizes(x, data_format)[0], seg_num, "the number of frames")
        if not 0 < shift_ratio <= 0.5:
            raise ProgramError(f"shift_ratio should be above 0, to 0.5, found {shift_ratio}")
        return x
