"""Samples of YOLO's output as boxes and of its loss."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.yolo import YoloBox, YoloLoss
from graphopt_tests.ops.base import f32, f64, i32, sample

SAMPLES = {
    YoloBox: [
        sample(
            f32(np.zeros((1, 6, 1, 1)).tolist()),
            i32([[64, 32]]),
            anchors=(16, 32),
            class_num=1,
            conf_thresh=0.4,
            downsample_ratio=32,
        ).gives(lambda x, s: ([[[8, 0, 24, 63]]], [[[0.25]]])),
        sample(
            f64(1, 12, 2, 2),
            i32([[40, 60]]),
            anchors=(10, 13, 16, 30),
            class_num=1,
            conf_thresh=0.01,
            downsample_ratio=32,
            clip_bbox=False,
            scale_x_y=1.2,
        ),
        sample(
            f64(1, 7, 2, 1),
            i32([[40, 60]]),
            anchors=(10, 13),
            class_num=1,
            conf_thresh=0.9,
            downsample_ratio=32,
            iou_aware=True,
        ).gives(lambda x, s: (np.zeros((1, 2, 4)), np.zeros((1, 2, 1)))),
        sample(
            f64(2, 16, 2, 3),
            i32([[40, 60], [20, 30]]),
            anchors=(10, 13, 8, 7),
            class_num=2,
            conf_thresh=0.4,
            downsample_ratio=8,
            scale_x_y=1.1,
            iou_aware=True,
            iou_aware_factor=0.3,
        ).kinked(),
        sample(
            f32(0, 6, 2, 3),
            i32(0, 2),
            anchors=(10, 13),
            class_num=1,
            conf_thresh=0.5,
            downsample_ratio=8,
        ),
    ],
    YoloLoss: [
        # one cell without a box: log(1 + exp(0))
        sample(
            f64(np.zeros((1, 6, 1, 1)).tolist()),
            f64([[[0.0, 0.0, 0.0, 0.0]]]),
            i32([[0]]),
            None,
            anchors=(16, 32),
            anchor_mask=(0,),
            class_num=1,
            ignore_thresh=0.7,
            downsample_ratio=32,
        )
        .gives(lambda x, boxes, labels, score: ([np.log(2)], [[[[0]]]], [[-1]]))
        .kinked(),
        sample(
            f64(1, 14, 2, 2),
            f64([[[0.3, 0.6, 0.2, 0.3], [0.8, 0.2, 0.4, 0.5]]]),
            i32([[0, 1]]),
            f64([[0.5, 1.0]]),
            anchors=(10, 13, 16, 30, 33, 23),
            anchor_mask=(0, 2),
            class_num=2,
            ignore_thresh=0.5,
            downsample_ratio=32,
            scale_x_y=1.2,
        ).gradient_through(0),
        sample(
            f32(2, 6, 2, 2),
            f32([[[0.3, 0.6, 0.2, 0.3]], [[0.8, 0.2, 0.4, 0.5]]]),
            i32([[0], [0]]),
            None,
            anchors=(10, 13),
            anchor_mask=(0,),
            class_num=1,
            ignore_thresh=0.5,
            downsample_ratio=32,
            use_label_smooth=False,
        ).gradient_through(0),
    ],
}
