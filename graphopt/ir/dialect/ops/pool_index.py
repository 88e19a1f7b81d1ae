"""Pools that also say where the maxima are, and their inverses.

A place is the number of an element in the flattened spatial dimensions of its channel.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integers, string
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.conv import Pool2d
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import Tensor, like, shape_of


class PoolIndex(OpaqueOp, ABC):
    """The maximum of each window, and its place."""

    x = operand_def(Tensor)
    out = result_def(Tensor)
    mask = result_def(Tensor)
    kernel_size = integers()
    strides = integers((1, 1))
    paddings = integers((0, 0))
    padding_algorithm = string("EXPLICIT")
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

    x = operand_def(Tensor)
    indices = operand_def(Tensor)
    out = result_def(Tensor)
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
