"""Masks that the third stage of a detector trains on: the outlines of objects as pixels."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.types import TENSOR, UNKNOWN, Tensor, like, rank_of, shape_of, show, tensor


@irdl_op_definition
class GenerateMaskLabels(DataSizedOp):
    """The boxes of each image with an object, and the pixel mask of the object in each box.

    `gt_segms` [points, 2] has the outlines: `lengths` counts the objects of each image,
    `polygon_lengths` the polygons of each object, `point_lengths` the points of each polygon, and
    `roi_lengths` the boxes of each image. Results: boxes [n, 4]; their indices among the boxes of
    the image [n, 1]; masks [n, num_classes * resolution^2], with 0 and 1 for `resolution` x
    `resolution` pixels at the position of the class and -1 elsewhere; and the number of boxes of
    each image. An image without objects has its first background box. Paddle: generate_mask_labels.
    """

    name = "pd.generate_mask_labels"
    im_info = operand_def(TENSOR)
    gt_classes = operand_def(TENSOR)
    is_crowd = operand_def(TENSOR)
    gt_segms = operand_def(TENSOR)
    rois = operand_def(TENSOR)
    labels = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    polygon_lengths = operand_def(TENSOR)
    point_lengths = operand_def(TENSOR)
    roi_lengths = operand_def(TENSOR)
    mask_rois = result_def(TENSOR)
    roi_has_mask = result_def(TENSOR)
    mask = result_def(TENSOR)
    counts = result_def(TENSOR)
    num_classes = integer()
    resolution = integer()

    @staticmethod
    def infer(
        im_info: Tensor,
        gt_classes: Tensor,
        is_crowd: Tensor,
        gt_segms: Tensor,
        rois: Tensor,
        labels: Tensor,
        lengths: Tensor,
        polygon_lengths: Tensor,
        point_lengths: Tensor,
        roi_lengths: Tensor,
        num_classes: int,
        resolution: int,
    ) -> tuple[Tensor, ...]:
        for what, value in (
            ("gt_classes", gt_classes),
            ("is_crowd", is_crowd),
            ("labels", labels),
            ("lengths", lengths),
            ("polygon_lengths", polygon_lengths),
            ("point_lengths", point_lengths),
            ("roi_lengths", roi_lengths),
        ):
            check_integer(what, value)
        for what, value, columns in (
            ("im_info", im_info, 3),
            ("gt_segms", gt_segms, 2),
            ("rois", rois, 4),
        ):
            if rank_of(value) != 2 or shape_of(value)[1] not in (columns, UNKNOWN):
                raise ProgramError(f"'{what}' should be [n, {columns}], found {show(value)}")
        if num_classes < 1 or resolution < 1:
            raise ProgramError(
                f"expected classes and a resolution, found {num_classes} and {resolution}"
            )
        return (
            like(rois, shape=(UNKNOWN, 4)),
            tensor((UNKNOWN, 1), "int32"),
            tensor((UNKNOWN, num_classes * resolution**2), "int32"),
            tensor((shape_of(im_info)[0],), "int64"),
        )
