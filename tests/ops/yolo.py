"""Samples of the loss of YOLO's output."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.yolo import YoloLoss
from graphopt_tests.ops.base import f32, f64, i32, sample

SAMPLES = {
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
