"""Regions of images that are no grid of pixels: boxes with offsets, and quadrangles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, integers, number
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.detection.roi import pooled_type
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    agree,
    like,
    same_dtype,
    shape_of,
    show,
)


@irdl_op_definition
class DeformablePsroiPool(OpaqueOp):
    """Boxes as grids of averages, each cell moved by an offset, and the points of each cell.

    Images are [n, c, h, w]; boxes are [r, 4], with the number of boxes of each image; offsets [r, 2
    * classes, part_height, part_width] are in box sizes times `trans_std`; without offsets no cell
    moves. A cell is the average of sample_per_part² points. The cells of one of `group_size` parts
    of the grid have channels of their own. Results: [r, output_dim, h, w], and integer point counts
    of the same shape. The slope along an axis is 0 at a point on a pixel. Gradients are exact for
    any `part_size`; Paddle computes the column of an offset from the part's height there, and so
    uses the offset of another cell where `part_size` is not square. Paddle:
    deformable_psroi_pooling.
    """

    name = "pd.deformable_psroi_pooling"
    irdl_options = (SEGMENTS,)
    x = operand_def(TENSOR)
    boxes = operand_def(TENSOR)
    boxes_num = operand_def(TENSOR)
    offsets = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    counts = result_def(TENSOR)
    spatial_scale = number(1.0)
    output_dim = integer(1)
    group_size = integers((1, 1))
    pooled_height = integer(1)
    pooled_width = integer(1)
    part_size = integers((1, 1))
    sample_per_part = integer(1)
    trans_std = number(0.1)

    @staticmethod
    def infer(
        x: Tensor,
        boxes: Tensor,
        boxes_num: Tensor,
        offsets: Tensor | None,
        output_dim: int,
        group_size: Sequence[int],
        pooled_height: int,
        pooled_width: int,
        part_size: Sequence[int],
        sample_per_part: int,
    ) -> tuple[Tensor, Tensor]:
        out = pooled_type(x, boxes, boxes_num, pooled_height, pooled_width, output_dim)
        if len(group_size) != 2 or len(part_size) != 2 or min(*group_size, *part_size) < 1:
            raise ProgramError(
                f"'group_size' and 'part_size' should be two numbers above 0, found "
                f"{list(group_size)} and {list(part_size)}"
            )
        wanted = output_dim * group_size[0] * group_size[1]
        if sample_per_part < 1 or not agree(shape_of(x)[1:2], (wanted,)):
            raise ProgramError(
                f"{output_dim} channels of {list(group_size)} groups need {wanted} channels and a "
                f"point in each cell, found {show(x)} and {sample_per_part} points"
            )
        if offsets is not None:
            same_dtype(x, offsets)
            sizes = (shape_of(boxes)[0], UNKNOWN, *part_size)
            pairs = shape_of(offsets)[1] if agree(shape_of(offsets), sizes) else 1
            whole = pairs == UNKNOWN or (pairs > 0 and not pairs % 2)
            if not whole or (pairs != UNKNOWN and output_dim % (pairs // 2)):
                raise ProgramError(
                    f"offsets should be [r, 2 * classes, {part_size[0]}, {part_size[1]}] with as "
                    f"many classes as divide {output_dim} channels, found {show(offsets)}"
                )
        return out, like(out, dtype="int32")


@irdl_op_definition
class RoiPerspectiveTransform(OpaqueOp):
    """Quadrangles of images [n, c, h, w] as rectangles [r, c, height, width].

    `rois` [r, 8] are four corners in turn, from the upper left one on, in pixels times 1 /
    spatial_scale, with the number of each image's quadrangles. Results: the rectangles; the mask of
    their pixels inside the quadrangle and the image [r, 1, height, width]; and the matrices [r, 9].
    Paddle: roi_perspective_transform.
    """

    name = "pd.roi_perspective_transform"
    x = operand_def(TENSOR)
    rois = operand_def(TENSOR)
    boxes_num = operand_def(TENSOR)
    out = result_def(TENSOR)
    mask = result_def(TENSOR)
    matrix = result_def(TENSOR)
    transformed_height = integer(1)
    transformed_width = integer(1)
    spatial_scale = number(1.0)

    @staticmethod
    def infer(
        x: Tensor,
        rois: Tensor,
        boxes_num: Tensor,
        transformed_height: int,
        transformed_width: int,
    ) -> tuple[Tensor, ...]:
        same_dtype(x, rois)
        height, width = transformed_height, transformed_width
        fits = len(shape_of(x)) == 4 and len(shape_of(boxes_num)) == 1
        if not fits or not agree(shape_of(rois), (UNKNOWN, 8)):
            raise ProgramError(
                "roi_perspective_transform needs images [n, c, h, w], quadrangles [r, 8] and their "
                f"numbers [n], found {show(x)}, {show(rois)} and {show(boxes_num)}"
            )
        if min(height, width) < 1:
            raise ProgramError(f"the size must be above 0, found {height} by {width}")
        count = shape_of(rois)[0]
        return (
            like(x, shape=(count, shape_of(x)[1], height, width)),
            like(x, shape=(count, 1, height, width), dtype="int32"),
            like(x, shape=(count, 9)),
        )
