"""YOLO's output as boxes."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.yolo import YoloBox
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import (
    Array,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.registry import exports


@exports(YoloBox, wide=True)
def yolo_box(
    emit: Nodes,
    x: Value,
    img_size: Value,
    anchors: tuple[int, ...],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool,
    scale_x_y: float,
    iou_aware: bool,
    iou_aware_factor: float,
) -> tuple[Value, Value]:
    rows, columns = sizes_of(x)[2:]
    if UNKNOWN in (rows, columns):
        raise NotInOnnx("an image size is open")
    sizes = np.asarray(anchors).reshape(-1, 2)
    count, dtype = len(sizes), dtype_of(x)
    first = count if iou_aware else 0

    def number(array: Array) -> Value:
        return emit.constant(np.asarray(array, dtype.numpy))

    whole = emit.cut(x, [1], [first], [first + count * (5 + class_num)])
    apart = emit.reshape(whole, [0, count, 5 + class_num, rows, columns])

    def part(at: int, end: int) -> Value:
        return emit.cut(apart, [2], [at], [end])

    def one(at: int) -> Value:
        return emit.squeeze(part(at, at + 1), 2)

    image = emit.reshape(emit.cast(img_size, dtype), [0, 2, 1, 1])
    grid = np.mgrid[:rows, :columns]
    shift = -0.5 * (scale_x_y - 1.0)
    low, high = list[Value](), list[Value]()
    for at, cells in ((0, columns), (1, rows)):
        side = emit.cut(image, [1], [1 - at], [2 - at])
        place = emit("Mul", emit("Sigmoid", one(at)), emit.number(scale_x_y, x))
        middle = emit("Mul", emit("Add", place, number(grid[1 - at] + shift)), side)
        middle = emit("Div", middle, emit.number(cells, x))
        share = sizes[:, at, None, None] / (2 * downsample_ratio * cells)
        half = emit("Mul", emit("Mul", emit("Exp", one(at + 2)), number(share)), side)
        start, end = emit("Sub", middle, half), emit("Add", middle, half)
        if clip_bbox:
            start = emit("Max", start, emit.number(0, x))
            end = emit("Min", end, emit("Sub", side, emit.number(1, x)))
        low.append(start)
        high.append(end)
    sure = emit("Sigmoid", one(4))
    if iou_aware:
        overlap = emit("Sigmoid", emit.cut(x, [1], [0], [count]))
        powers = (sure, 1 - iou_aware_factor), (overlap, iou_aware_factor)
        sure = emit("Mul", *(emit("Pow", v, emit.number(power, x)) for v, power in powers))
    kept = emit.unsqueeze(emit("GreaterOrEqual", sure, emit.number(conf_thresh, x)), 4)
    zero = emit.number(0, x)
    corners = emit("Concat", *(emit.unsqueeze(each, 4) for each in (*low, *high)), axis=4)
    boxes = emit("Where", kept, corners, zero)
    classes = emit.transpose(part(5, 5 + class_num), (0, 1, 3, 4, 2))
    scores = emit("Mul", emit("Sigmoid", classes), emit.unsqueeze(sure, 4))
    scores = emit("Where", kept, scores, zero)
    total = count * rows * columns
    return emit.reshape(boxes, [0, total, 4]), emit.reshape(scores, [0, total, class_num])
