"""Convolution and pooling over two spatial dimensions."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.attrs import flag, integer, integers, string
from graphopt.ir.ops.base import PureOp
from graphopt.ir.types import UNKNOWN, Tensor, like, same_dtype, shape_of

Pads = tuple[tuple[int, int], ...]


def is_channels_last(data_format: str) -> bool:
    """True for NHWC and its like; ProgramError for an unknown layout."""
    if data_format in ("NCHW", "AnyLayout"):
        return False
    if data_format == "NHWC":
        return True
    raise ProgramError(f"data_format must be NCHW or NHWC, found '{data_format}'")


def explicit_pads(
    paddings: Sequence[int],
    algorithm: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Pads:
    """Padding before and after each spatial dimension.

    `paddings` has one number per dimension or two; SAME puts the odd one after, as Paddle does.
    An unknown size under SAME gets the padding of a size that the stride divides.
    """
    if algorithm == "VALID":
        return tuple((0, 0) for _ in kernel)
    if algorithm == "SAME":
        pads: list[tuple[int, int]] = []
        for size, k, stride in zip(sizes, kernel, strides, strict=True):
            known = stride if size == UNKNOWN else size
            total = max((-(-known // stride) - 1) * stride + k - known, 0)
            pads.append((total // 2, total - total // 2))
        return tuple(pads)
    if len(paddings) == len(kernel):
        return tuple((p, p) for p in paddings)
    if len(paddings) == 2 * len(kernel):
        return tuple((paddings[2 * i], paddings[2 * i + 1]) for i in range(len(kernel)))
    raise ProgramError(f"paddings must have {len(kernel)} or {2 * len(kernel)} numbers")


def used_dilations(dilations: Sequence[int], algorithm: str) -> tuple[int, ...]:
    """The dilations that count: under SAME, Paddle takes all of them for 1."""
    return (1,) * len(dilations) if algorithm == "SAME" else tuple(dilations)


def window_output(size: int, window: int, stride: int, pads: tuple[int, int], ceil: bool) -> int:
    """How many windows fit in a padded dimension."""
    if size == UNKNOWN:
        return UNKNOWN
    room = size + sum(pads) - window
    count = (-(-room // stride) if ceil else room // stride) + 1
    if count < 1:
        raise ProgramError(
            f"a window of {window} does not fit a dimension of {size} padded by {pads}"
        )
    return count


class Conv2dBase(PureOp, ABC):
    """Cross-correlation of a batch of images with filters [out, in / groups, height, width]."""

    input = operand_def(Tensor)
    filter = operand_def(Tensor)
    out = result_def(Tensor)
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT")
    dilations = integers((1, 1))
    groups = integer(1)
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
        data_format: str,
    ) -> Tensor:
        same_dtype(input, filter)
        x, w = shape_of(input), shape_of(filter)
        if len(x) != 4 or len(w) != 4:
            raise ProgramError("conv2d needs a 4-D input and a 4-D filter")
        last = is_channels_last(data_format)
        channels, spatial = (x[3], x[1:3]) if last else (x[1], x[2:])
        if groups < 1 or (UNKNOWN not in (channels, w[1]) and channels != w[1] * groups):
            raise ProgramError(
                f"the input has {channels} channels but the filter {list(w)} "
                f"with groups={groups} wants {w[1] * groups}"
            )
        if w[0] != UNKNOWN and w[0] % groups:
            raise ProgramError(f"{w[0]} output channels cannot be split in {groups} groups")
        kernel = w[2:]
        dilations = used_dilations(dilations, padding_algorithm)
        pads = explicit_pads(paddings, padding_algorithm, spatial, kernel, strides, dilations)
        out = [
            UNKNOWN if k == UNKNOWN else window_output(size, d * (k - 1) + 1, stride, pad, False)
            for size, d, k, stride, pad in zip(
                spatial, dilations, kernel, strides, pads, strict=True
            )
        ]
        return like(input, shape=(x[0], *out, w[0]) if last else (x[0], w[0], *out))


@irdl_op_definition
class Conv2d(Conv2dBase):
    """Two-dimensional convolution. Paddle: conv2d."""

    name = "pd.conv2d"


@irdl_op_definition
class DepthwiseConv2d(Conv2dBase):
    """Convolution with one group per input channel. Paddle: depthwise_conv2d."""

    name = "pd.depthwise_conv2d"


@irdl_op_definition
class Pool2d(PureOp):
    """Maximum or average over windows. Paddle: pool2d."""

    name = "pd.pool2d"
    x = operand_def(Tensor)
    out = result_def(Tensor)
    kernel_size = integers()
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT")
    pooling_type = string("max")
    global_pooling = flag(False)
    adaptive = flag(False)
    ceil_mode = flag(False)
    exclusive = flag(True)
    data_format = string("NCHW")

    @staticmethod
    def infer(
        x: Tensor,
        kernel_size: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        pooling_type: str,
        global_pooling: bool,
        adaptive: bool,
        ceil_mode: bool,
        data_format: str,
    ) -> Tensor:
        shape = shape_of(x)
        if len(shape) != 4:
            raise ProgramError("pool2d needs a 4-D input")
        if pooling_type not in ("max", "avg"):
            raise ProgramError(f"pooling_type must be max or avg, found '{pooling_type}'")
        last = is_channels_last(data_format)
        spatial = shape[1:3] if last else shape[2:]
        if global_pooling:
            out: Sequence[int] = (1, 1)
        elif adaptive:
            out = tuple(kernel_size)
        else:
            pads = explicit_pads(paddings, padding_algorithm, spatial, kernel_size, strides, (1, 1))
            out = [
                window_output(size, k, stride, pad, ceil_mode)
                for size, k, stride, pad in zip(spatial, kernel_size, strides, pads, strict=True)
            ]
        return like(x, shape=(shape[0], *out, shape[3]) if last else (*shape[:2], *out))
