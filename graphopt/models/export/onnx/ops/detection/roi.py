"""Regions of images."""

from __future__ import annotations

from graphopt.ir.dialect.ops.detection.roi import RoiAlign
from graphopt.models.export.onnx.nodes import Nodes, Value
from graphopt.models.export.onnx.registry import exports


@exports(RoiAlign, wide=True)
def roi_align(
    emit: Nodes,
    x: Value,
    boxes: Value,
    boxes_num: Value,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """The image of a box is the number of those all of whose boxes come before it."""
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    ends = emit("CumSum", emit.cast(boxes_num, "int64"), zero)
    count = emit.reshape(emit.size(boxes, 0), emit.ints([]))
    places = emit.unsqueeze(emit("Range", zero, count, one), 1)
    before = emit.cast(emit("LessOrEqual", emit.unsqueeze(ends, 0), places), "int64")
    images = emit("ReduceSum", before, emit.ints([1]), keepdims=0)
    return emit(
        "RoiAlign",
        *(x, boxes, images),
        output_height=pooled_height,
        output_width=pooled_width,
        spatial_scale=spatial_scale,
        sampling_ratio=max(sampling_ratio, 0),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )
