"""Regions of images."""

from __future__ import annotations

import math

from graphopt.ir.dialect.ops.detection.roi import PrroiPool, PsroiPool, RoiAlign, RoiPool
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.elementary import round_
from graphopt.models.export.onnx.ops.sequence.layers import owners_of
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
    return emit(
        "RoiAlign",
        *(x, boxes, owners_of(emit, boxes_num, boxes)),
        output_height=pooled_height,
        output_width=pooled_width,
        spatial_scale=spatial_scale,
        sampling_ratio=max(sampling_ratio, 0),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )


class _Boxes:
    """Scaled boxes: their cells along each axis, and the images that contain them."""

    def __init__(
        self, emit: Nodes, x: Value, boxes: Value, boxes_num: Value, height: int, width: int
    ) -> None:
        if sizes_of(boxes)[0] == 0:
            raise NotInOnnx("the number of boxes is 0")
        self.emit, self.x, self.counts = emit, x, (height, width)
        self.images = emit("Gather", x, owners_of(emit, boxes_num, boxes), axis=0)

    def pixels(self, axis: int) -> Value:
        """List the indices of the rows (0) or columns (1) of an image."""
        return self.emit.cast(self.emit.places(self.x, 2 + axis), dtype_of(self.x))

    def cells(self, low: Value, size: Value, axis: int) -> tuple[Value, Value]:
        """Compute start and end [r, count] of the cells of sides [r, 1] along an axis."""
        emit, count = self.emit, self.counts[axis]
        step = emit("Div", size, emit.number(count, size))
        first, after = (
            emit.cast(emit.ints(range(start, start + count)), dtype_of(self.x)) for start in (0, 1)
        )
        return (
            emit("Add", low, emit("Mul", first, step)),
            emit("Add", low, emit("Mul", after, step)),
        )

    def cover_pixels(self, start: Value, end: Value, axis: int) -> Value:
        """Mark the pixels [r, count, pixels] inside cells with integer bounds."""
        emit, at = self.emit, self.pixels(axis)
        begun = emit("GreaterOrEqual", at, emit.unsqueeze(start, 2))
        return emit("And", begun, emit("Less", at, emit.unsqueeze(end, 2)))


def _side(emit: Nodes, corners: Value, axis: int) -> tuple[Value, Value]:
    """Slice both ends [r, 1] of boxes along rows (0) or columns (1)."""
    low, high = (emit.cut(corners, [1], [at], [at + 1]) for at in (1 - axis, 3 - axis))
    return low, high


@exports(PrroiPool, wide=True)
def prroi_pool(
    emit: Nodes,
    x: Value,
    boxes: Value,
    boxes_num: Value,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Value:
    """Sum the pixels of each cell, weighted by the integrals of their hat functions."""
    own = _Boxes(emit, x, boxes, boxes_num, pooled_height, pooled_width)
    corners, zero = emit("Mul", boxes, emit.number(spatial_scale, boxes)), emit.number(0, x)
    weights, sizes = list[Value](), list[Value]()
    for axis in (0, 1):
        low, high = _side(emit, corners, axis)
        size = emit("Max", emit("Sub", high, low), zero)
        bounds = own.cells(low, size, axis)
        start, end = (
            _hat(emit, emit("Sub", emit.unsqueeze(bound, 2), own.pixels(axis))) for bound in bounds
        )
        weights.append(emit("Sub", end, start))
        sizes.append(emit("Div", size, emit.number(own.counts[axis], size)))
    found = emit("Einsum", weights[0], own.images, weights[1], equation="rph,rchw,rqw->rcpq")
    area = emit.unsqueeze(emit("Mul", *sizes), 2, 3)
    some = emit("Greater", area, zero)
    share = emit("Div", found, emit("Where", some, area, emit.number(1, x)))
    return emit("Where", some, share, zero)


def _hat(emit: Nodes, x: Value) -> Value:
    """Compute the integral of max(0, 1 - |t|) up to x."""
    zero, one, half = (emit.number(number, x) for number in (0, 1, 0.5))
    low, high = emit("Clip", x, emit.number(-1, x), zero), emit("Clip", x, zero, one)
    rising = emit("Mul", half, emit("Pow", emit("Add", low, one), emit.number(2, x)))
    falling = emit("Sub", high, emit("Mul", half, emit("Mul", high, high)))
    return emit("Add", rising, falling)


@exports(PsroiPool, wide=True)
def psroi_pool(
    emit: Nodes,
    x: Value,
    boxes: Value,
    boxes_num: Value,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    output_channels: int,
) -> Value:
    own = _Boxes(emit, x, boxes, boxes_num, pooled_height, pooled_width)
    corners, scale = round_(emit, boxes), emit.number(spatial_scale, boxes)
    masks = list[Value]()
    for axis in (0, 1):
        low, high = _side(emit, corners, axis)
        low = emit("Mul", low, scale)
        end = emit("Mul", emit("Add", high, emit.number(1, high)), scale)
        size = emit("Max", emit("Sub", end, low), emit.number(0.1, low))
        start, end = own.cells(low, size, axis)
        covered = own.cover_pixels(emit("Floor", start), emit("Ceil", end), axis)
        masks.append(emit.cast(covered, dtype_of(x)))
    rows, columns = masks
    sizes = [emit.size(x, axis) for axis in (2, 3)]
    apart = emit.reshape(own.images, [-1, output_channels, pooled_height, pooled_width, *sizes])
    total = emit("Einsum", rows, apart, columns, equation="rph,rcpqhw,rqw->rcpq")
    areas = [emit("ReduceSum", mask, emit.ints([2]), keepdims=0) for mask in masks]
    area = emit("Mul", emit.unsqueeze(areas[0], 1, 3), emit.unsqueeze(areas[1], 1, 2))
    return emit("Div", total, emit("Max", area, emit.number(1, x)))


@exports(RoiPool)
def roi_pool(
    emit: Nodes,
    x: Value,
    boxes: Value,
    boxes_num: Value,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Value:
    """Take the maximum over the columns of a cell in each row, then over its rows."""
    own = _Boxes(emit, x, boxes, boxes_num, pooled_height, pooled_width)
    corners = round_(emit, emit("Mul", boxes, emit.number(spatial_scale, boxes)))
    one, none = emit.number(1, boxes), emit.number(-math.inf, x)
    masks = list[Value]()
    for axis in (0, 1):
        low, high = _side(emit, corners, axis)
        size = emit("Max", emit("Add", emit("Sub", high, low), one), one)
        start, end = own.cells(emit.number(0, boxes), size, axis)
        start = emit("Add", emit("Floor", start), low)
        end = emit("Add", emit("Ceil", end), low)
        masks.append(own.cover_pixels(start, end, axis))
    rows, columns = masks
    lines = emit("Where", emit.unsqueeze(columns, 1, 2), emit.unsqueeze(own.images, 3), none)
    lines = emit("ReduceMax", lines, emit.ints([4]), keepdims=0)
    cells = emit("Where", emit.unsqueeze(rows, 1, 4), emit.unsqueeze(lines, 2), none)
    found = emit("ReduceMax", cells, emit.ints([3]), keepdims=0)
    return emit("Where", emit("Equal", found, none), emit.number(0, x), found)
