"""Pools over two or three spatial dimensions, with the places of their maxima, and their inverses.

A place is the number of an element in the flattened spatial dimensions of its channel.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integers, string
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, PureOp
from graphopt.ir.dialect.ops.conv import (
    explicit_pads,
    is_channels_last,
    spatial_sizes,
    window_output,
    with_spatial,
)
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.traits import Rowwise
from graphopt.ir.dialect.types import TENSOR, Tensor, dtype_of, like, shape_of


class PoolBase(OneTensor, PureOp, ABC):
    """Maximum or average over windows, in as many dimensions as the kernel has.

    `algorithm` selects how to compute it, empty for the backend's default; a pass sets it.
    """

    traits = traits_def(Rowwise())
    kernel_size = integers()
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT", of=("EXPLICIT", "SAME", "VALID"))
    pooling_type = string("max", of=("max", "avg"))
    global_pooling = flag(False)
    adaptive = flag(False)
    ceil_mode = flag(False)
    exclusive = flag(True)
    data_format = string("NCHW", of=("NCHW", "NHWC"))
    algorithm = string("")

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
        algorithm: str = "",
    ) -> Tensor:
        shape, rank = shape_of(x), len(kernel_size)
        if len(shape) != rank + 2:
            raise ProgramError(f"pool{rank}d needs rank {rank + 2}, found {list(shape)}")
        if pooling_type not in ("max", "avg"):
            raise ProgramError(f"pooling_type must be max or avg, found '{pooling_type}'")
        if algorithm not in ("", "shifts") and (algorithm, pooling_type) != ("tiles", "avg"):
            raise ProgramError(f"'{algorithm}' is not an algorithm of a {pooling_type} pool")
        if algorithm and not dtype_of(x).is_floating:
            raise OperandError(f"the algorithm '{algorithm}' is not for {dtype_of(x)}")
        spatial = spatial_sizes(shape, data_format)
        if global_pooling:
            out: Sequence[int] = (1,) * rank
        elif adaptive:
            out = tuple(kernel_size)
            if 0 in out:
                raise ProgramError(f"each output size should be at least 1, found {list(out)}")
        else:
            algorithm, ones = padding_algorithm, (1,) * rank
            pads = explicit_pads(paddings, algorithm, spatial, kernel_size, strides, ones)
            out = [
                window_output(size, k, stride, pad, ceil_mode, may_pass_end=True)
                for size, k, stride, pad in zip(spatial, kernel_size, strides, pads, strict=True)
            ]
        channels = shape[-1] if is_channels_last(data_format) else shape[1]
        return like(x, shape=with_spatial(shape, channels, out, data_format))


@irdl_op_definition
class Pool2d(PoolBase):
    """Maximum or average over windows of images. Paddle: pool2d."""

    name = "pd.pool2d"


@irdl_op_definition
class Pool3d(PoolBase):
    """Maximum or average over windows of volumes. Paddle: pool3d."""

    name = "pd.pool3d"
    strides = integers((1, 1, 1))
    paddings = integers((0, 0, 0))
    data_format = string("NCDHW", of=("NCDHW", "NDHWC"))


class PoolIndex(OpaqueOp, ABC):
    """The maximum of each window, and its place."""

    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    mask = result_def(TENSOR)
    kernel_size = integers()
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT", of=("EXPLICIT", "SAME", "VALID"))
    global_pooling = flag(False)
    adaptive = flag(False)
    ceil_mode = flag(False)

    @staticmethod
    def infer(
        x: Tensor,
        kernel_size: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
        padding_algorithm: str,
        global_pooling: bool,
        adaptive: bool,
        ceil_mode: bool,
    ) -> tuple[Tensor, Tensor]:
        out = Pool2d.infer(
            x,
            kernel_size,
            strides,
            paddings,
            padding_algorithm,
            "max",
            global_pooling,
            adaptive,
            ceil_mode,
            "NCHW",
        )
        return out, like(out, dtype="int32")


@irdl_op_definition
class MaxPool2dWithIndex(PoolIndex):
    """Of images [n, c, h, w]. Paddle: max_pool2d_with_index."""

    name = "pd.max_pool2d_with_index"


@irdl_op_definition
class MaxPool3dWithIndex(PoolIndex):
    """Of volumes [n, c, d, h, w]. Paddle: max_pool3d_with_index."""

    name = "pd.max_pool3d_with_index"
    strides = integers((1, 1, 1))
    paddings = integers((0, 0, 0))


class UnpoolBase(OpaqueOp, ABC):
    """Zeros with the elements of x at their places."""

    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    out = result_def(TENSOR)
    output_size = integers()

    @staticmethod
    def infer(x: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
        check_integer("indices", indices)
        shape, places = shape_of(x), shape_of(indices)
        if len(shape) != len(output_size) + 2 or len(places) != len(shape):
            raise ProgramError(
                f"unpooling to {list(output_size)} needs x and indices of rank "
                f"{len(output_size) + 2}, found {list(shape)} and {list(places)}"
            )
        return like(x, shape=(*shape[:2], *output_size))


@irdl_op_definition
class Unpool(UnpoolBase):
    """Images from their maxima. Paddle: unpool."""

    name = "pd.unpool"


@irdl_op_definition
class Unpool3d(UnpoolBase):
    """Volumes from their maxima. Paddle: unpool3d."""

    name = "pd.unpool3d"
