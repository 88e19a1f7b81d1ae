"""Object detection: non-maximum suppression, and pooling of regions."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.detection.proposals import Nms
from graphopt.ir.dialect.ops.detection.roi import RoiAlign
from graphopt.ir.dialect.ops.dynamic import Nonzero
from graphopt.ir.dialect.ops.index import Gather, OneHot
from graphopt.ir.dialect.ops.math import Add, GreaterThan, Maximum, Minimum, Scale, Subtract
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.shape import Concat, Slice
from graphopt.ir.dialect.ops.sort import Argsort
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, shape
from graphopt.ir.translate.onnx.registry import reads

# The most pairs of an image and a class; each pair has ops of its own in the program.
_MOST_PARTS = 1024


@reads("NonMaxSuppression")
def non_max_suppression(
    emit: OnnxEmitter,
    boxes: SSAValue,
    scores: SSAValue,
    most: SSAValue | None = None,
    overlap: SSAValue | None = None,
    least: SSAValue | None = None,
    *,
    center_point_box: int = 0,
) -> SSAValue:
    """Emit rows (image, class, box) of the boxes that suppression keeps in each class."""
    images, classes, _ = shape(scores)
    if images < 0 or classes < 0:
        images, classes, _ = emit.sizes(scores, "the sizes of its scores")
    if images * classes > _MOST_PARTS:
        raise emit.refuse(
            f"{images} images of {classes} classes exceed the limit of {_MOST_PARTS} parts; "
            "replace the node by a library call after the model"
        )
    limit = 0 if most is None else int(emit.numbers(most, "number of boxes")[0])
    threshold = 0.0 if overlap is None else float(emit.numbers(overlap, "overlap")[0])
    floor = None if least is None else float(emit.numbers(least, "least score")[0])
    if limit <= 0:
        return emit(Full, shape=(0, 3), value=0.0, dtype="int64")
    corners = _corners(emit, boxes, by_center=bool(center_point_box))
    parts: list[SSAValue] = []
    for image in range(images):
        own = emit.element(corners, image)
        rows = emit.element(scores, image)
        for kind in range(classes):
            best = _best(emit, own, emit.element(rows, kind), threshold, floor, limit)
            parts.append(_add_numbers(emit, best, image, kind))
    return parts[0] if len(parts) == 1 else emit(Concat, parts, axis=0)


def _corners(emit: OnnxEmitter, boxes: SSAValue, *, by_center: bool) -> SSAValue:
    """Convert boxes to their least and largest corner, from any two corners or center and size."""
    first, second = (emit(Slice, boxes, axes=(2,), starts=(i,), ends=(i + 2,)) for i in (0, 2))
    if by_center:
        half = emit(Scale, second, scale=0.5)
        first, second = emit(Subtract, first, half), emit(Add, first, half)
    ends = [emit(Minimum, first, second), emit(Maximum, first, second)]
    return emit(Concat, ends, axis=2)


def _best(
    emit: OnnxEmitter,
    boxes: SSAValue,
    scores: SSAValue,
    threshold: float,
    floor: float | None,
    limit: int,
) -> SSAValue:
    """Emit the indices of the boxes [n, 4] to keep, the best one first."""
    order = emit.all(Argsort, scores, axis=0, descending=True)[1]
    if floor is not None:
        sorted_scores = emit(Gather, scores, order)
        is_good = emit(GreaterThan, sorted_scores, emit.number(floor, scores))
        places = emit.reshape(emit(Nonzero, is_good), -1)
        order = emit(Gather, order, places)
    kept = emit(Nms, emit(Gather, boxes, order), threshold=threshold)
    chosen = emit(Gather, order, kept)
    return emit(Slice, chosen, axes=(0,), starts=(0,), ends=(limit,))


def _add_numbers(emit: OnnxEmitter, best: SSAValue, image: int, kind: int) -> SSAValue:
    column = emit.unsqueeze(emit.cast(best, "int64"), 1)
    columns = [emit.fill_like(column, number, "int64") for number in (image, kind)]
    return emit(Concat, [*columns, column], axis=1)


@reads("RoiAlign")
def roi_align(
    emit: OnnxEmitter,
    x: SSAValue,
    rois: SSAValue,
    batch: SSAValue,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> SSAValue:
    """Sort boxes by image, as the pd op needs them, and restore their order in the result."""
    if emit.one_of(mode, ("avg", "max")) == "max":
        raise emit.refuse("the maximum of the points of a cell is not supported; use the average")
    ways = ("half_pixel", "output_half_pixel")
    default = "half_pixel" if emit.opset >= 16 else "output_half_pixel"
    way = emit.one_of(coordinate_transformation_mode or default, ways)
    images = emit.sizes(x, along=(0,))[0]
    order = emit.all(Argsort, batch, axis=0)[1]
    back = emit.all(Argsort, order, axis=0)[1]
    hot = emit(OneHot, emit.cast(batch, "int64"), depth=images, dtype="int32")
    counts = emit.cast(emit(Sum, hot, axis=(0,), dtype="int32"), "int32")
    out = emit(
        RoiAlign,
        *(x, emit(Gather, rois, order), counts),
        sampling_ratio=sampling_ratio or -1,
        aligned=way == "half_pixel",
        pooled_height=output_height,
        pooled_width=output_width,
        spatial_scale=spatial_scale,
    )
    return emit(Gather, out, back)
