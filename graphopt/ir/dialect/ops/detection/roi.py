"""Regions of images: pools over boxes, and convolutions with sampling offsets."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, same_dtype, shape_of


class RoiPoolBase(OpaqueOp, ABC):
    """Each box of images [n, c, h, w] as a grid of pooled_height by pooled_width values.

    Boxes are [r, 4] corners in pixels times 1 / spatial_scale, image by image; boxes_num [n] has
    the number of boxes of each image.
    """

    x = operand_def(TENSOR)
    boxes = operand_def(TENSOR)
    boxes_num = operand_def(TENSOR)
    out = result_def(TENSOR)
    pooled_height = integer(1)
    pooled_width = integer(1)
    spatial_scale = number(1.0)

    @staticmethod
    def infer(
        x: Tensor, boxes: Tensor, boxes_num: Tensor, pooled_height: int, pooled_width: int
    ) -> Tensor:
        return pooled_type(x, boxes, boxes_num, pooled_height, pooled_width)


def pooled_type(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, height: int, width: int, channels: int = 0
) -> Tensor:
    """Infer the type of a pool over boxes; raise ProgramError when the operands do not fit."""
    same_dtype(x, boxes)
    images, corners, counts = shape_of(x), shape_of(boxes), shape_of(boxes_num)
    if len(images) != 4 or len(corners) != 2 or corners[1] not in (4, UNKNOWN) or len(counts) != 1:
        raise ProgramError(
            "a pool over boxes needs images [n, c, h, w], boxes [r, 4] and numbers [n], found "
            f"{list(images)}, {list(corners)} and {list(counts)}"
        )
    if min(height, width) < 1:
        raise ProgramError(f"the pooled size must be above 0, found {height} by {width}")
    return like(x, shape=(corners[0], channels or images[1], height, width))


@irdl_op_definition
class RoiAlign(RoiPoolBase):
    """The average of sampling_ratio² points in each cell, between pixels. Paddle: roi_align.

    Without a sampling_ratio above 0 there is a point for each pixel that a cell is long, or begins.
    With `aligned` pixels are areas, not points; without, boxes are at least one pixel large.
    """

    name = "pd.roi_align"
    sampling_ratio = integer(-1)
    aligned = flag(False)


@irdl_op_definition
class RoiPool(RoiPoolBase):
    """The maximum over each cell, 0 where it has no pixels. Paddle: roi_pool."""

    name = "pd.roi_pool"


@irdl_op_definition
class PrroiPool(RoiPoolBase):
    """The integral over each cell between pixels, divided by its area. Paddle: prroi_pool."""

    name = "pd.prroi_pool"


@irdl_op_definition
class PsroiPool(RoiPoolBase):
    """The average over each cell, of channels that only this cell looks at. Paddle: psroi_pool."""

    name = "pd.psroi_pool"
    output_channels = integer(1)

    @staticmethod
    def infer(
        x: Tensor,
        boxes: Tensor,
        boxes_num: Tensor,
        pooled_height: int,
        pooled_width: int,
        output_channels: int = 1,
    ) -> Tensor:
        wanted = output_channels * pooled_height * pooled_width
        if shape_of(x)[1:2] not in ((wanted,), (UNKNOWN,)):
            raise ProgramError(
                f"{output_channels} channels of {pooled_height} by {pooled_width} cells need "
                f"{wanted} channels, found {list(shape_of(x))}"
            )
        height, width = pooled_height, pooled_width
        return pooled_type(x, boxes, boxes_num, height, width, output_channels)
