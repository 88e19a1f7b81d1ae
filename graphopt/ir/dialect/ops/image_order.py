"""Pixels, channels and frames of images in another order."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, number, string
from graphopt.ir.dialect.ops.base import OpaqueOp, PureOp
from graphopt.ir.dialect.ops.conv import is_channels_last
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import UNKNOWN, Tensor, like, rank_of, shape_of, show


def _sizes(x: Tensor, data_format: str) -> tuple[int, int, int, int]:
    """Number, channels, height and width."""
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
class PixelShuffle(PureOp):
    """Channels as pixels: [n, c r r, h, w] gives [n, c, h r, w r]. Paddle: pixel_shuffle."""

    name = "pd.pixel_shuffle"
    traits = traits_def(Movement())
    x = operand_def(Tensor)
    out = result_def(Tensor)
    upscale_factor = integer(1)
    data_format = string("NCHW")

    @staticmethod
    def infer(x: Tensor, upscale_factor: int, data_format: str) -> Tensor:
        n, channels, *size = _sizes(x, data_format)
        channels = _over(channels, upscale_factor * upscale_factor, "the number of channels")
        return _images(x, data_format, n, channels, *(_times(d, upscale_factor) for d in size))


@irdl_op_definition
class PixelUnshuffle(PureOp):
    """Pixels as channels: [n, c, h r, w r] gives [n, c r r, h, w]. Paddle: pixel_unshuffle."""

    name = "pd.pixel_unshuffle"
    traits = traits_def(Movement())
    x = operand_def(Tensor)
    out = result_def(Tensor)
    downscale_factor = integer(1)
    data_format = string("NCHW")

    @staticmethod
    def infer(x: Tensor, downscale_factor: int, data_format: str) -> Tensor:
        r = downscale_factor
        n, channels, *size = _sizes(x, data_format)
        size = [_over(d, r, "the size") for d in size]
        return _images(x, data_format, n, _times(channels, r * r), *size)


@irdl_op_definition
class ChannelShuffle(PureOp):
    """The first channel of each group, then the second of each, ... Paddle: channel_shuffle."""

    name = "pd.channel_shuffle"
    traits = traits_def(Movement())
    x = operand_def(Tensor)
    out = result_def(Tensor)
    groups = integer(1)
    data_format = string("NCHW")

    @staticmethod
    def infer(x: Tensor, groups: int, data_format: str) -> Tensor:
        _over(_sizes(x, data_format)[1], groups, "the number of channels")
        return x


@irdl_op_definition
class SpaceToDepth(PureOp):
    """Blocks of pixels as channels, in the order of Paddle's operator. Paddle: space_to_depth."""

    name = "pd.space_to_depth"
    traits = traits_def(Movement())
    x = operand_def(Tensor)
    out = result_def(Tensor)
    blocksize = integer()

    @staticmethod
    def infer(x: Tensor, blocksize: int) -> Tensor:
        n, channels, *size = _sizes(x, "NCHW")
        squared = blocksize * blocksize
        _over(channels, squared, "the number of channels")
        sides = [_over(d, blocksize, "the size") for d in size]
        return like(x, shape=(n, _times(channels, squared), *sides))


@irdl_op_definition
class TemporalShift(OpaqueOp):
    """Some channels of frames [n t, c, h, w] from the last frame, some from the next.

    Paddle: temporal_shift.
    """

    name = "pd.temporal_shift"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    seg_num = integer()
    shift_ratio = number(0.25)
    data_format = string("NCHW")

    @staticmethod
    def infer(x: Tensor, seg_num: int, shift_ratio: float, data_format: str) -> Tensor:
        _over(_sizes(x, data_format)[0], seg_num, "the number of frames")
        if not 0 <= shift_ratio <= 0.5:
            raise ProgramError(f"shift_ratio should be from 0 to 0.5, found {shift_ratio}")
        return x
