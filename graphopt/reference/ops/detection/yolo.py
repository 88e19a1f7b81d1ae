"""The output of YOLO as boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphopt.ir.dialect.ops.detection import yolo as ops
from graphopt.reference.ops.activation import logistic
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.YoloBox)
def yolo_box(
    x: Array,
    img_size: Array,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool,
    scale_x_y: float,
    iou_aware: bool,
    iou_aware_factor: float,
) -> tuple[Array, Array]:
    batch, _, rows, columns = x.shape
    count = len(anchors) // 2
    own = x[:, count:] if iou_aware else x
    # [images, anchors, rows, columns, predictions]
    values = np.reshape(own, (batch, count, 5 + class_num, rows, columns))
    values = np.transpose(values, (0, 1, 3, 4, 2))
    sure = logistic(values[..., 4:5])
    if iou_aware:
        overlap = logistic(np.reshape(x[:, :count], (batch, count, rows, columns, 1)))
        sure = np.power(sure, 1 - iou_aware_factor) * np.power(overlap, iou_aware_factor)
    kept = sure >= conf_thresh
    grid = np.stack(np.broadcast_arrays(np.arange(columns), np.arange(rows)[:, None]), -1)
    image = np.reshape(img_size[:, ::-1], (batch, 1, 1, 1, 2)).astype(x.dtype)  # width, height
    inner = logistic(values[..., :2]) * scale_x_y - (scale_x_y - 1) / 2
    sizes = np.array([columns, rows], x.dtype)
    middle = (grid.astype(x.dtype) + inner) * image / sizes
    boxes = np.reshape(np.array(anchors, x.dtype), (count, 1, 1, 2))
    half = np.exp(values[..., 2:4]) * boxes * image / (sizes * downsample_ratio) / 2
    low, high = middle - half, middle + half
    if clip_bbox:
        low, high = np.maximum(low, 0.0), np.minimum(high, image - 1.0)
    corners = np.where(kept, np.concatenate([low, high], -1), 0.0)
    scores = np.where(kept, sure * logistic(values[..., 5:]), 0.0)
    number = count * rows * columns
    return np.reshape(corners, (batch, number, 4)), np.reshape(scores, (batch, number, class_num))
