"""Samples of the mean average precision of detected boxes."""

from __future__ import annotations

from graphopt.ir.dialect.ops.detection import average_precision as ops
from graphopt_tests.ops.base import f32, i32, i64, sample

# two images: three of the four labels of class 1 and 2 are found, one detection is of no label
DETECTED = f32(
    [
        [1, 0.3, 0.1, 0.0, 0.4, 0.3],
        [1, 0.7, 0.0, 0.1, 0.2, 0.3],
        [1, 0.9, 0.7, 0.6, 0.8, 0.8],
        [2, 0.8, 0.2, 0.1, 0.4, 0.4],
        [2, 0.1, 0.4, 0.3, 0.7, 0.5],
        [1, 0.2, 0.8, 0.1, 1.0, 0.3],
        [3, 0.2, 0.8, 0.1, 1.0, 0.3],
    ]
)
LABELS = f32(
    [
        [1, 0, 0.1, 0.1, 0.3, 0.3],
        [1, 1, 0.6, 0.6, 0.8, 0.8],
        [2, 0, 0.3, 0.3, 0.6, 0.5],
        [1, 0, 0.7, 0.1, 0.9, 0.3],
    ]
)
BOXES = (DETECTED, i64([3, 4]), LABELS, i64([2, 2]))

SAMPLES = {
    ops.DetectionMap: [
        sample(*BOXES, [], class_num=4),
        sample(*BOXES, [], class_num=4, ap_type="11point", evaluate_difficult=False),
        sample(
            *BOXES,
            [
                i32([1]),
                i32([[0], [2], [1], [0]]),
                f32([[0.7, 1.0], [0.3, 0.0], [0.2, 1.0], [0.8, 0.0], [0.1, 1.0]]),
                i64([0, 3, 2, 0]),
                f32([[0.7, 0.0], [0.3, 1.0], [0.2, 0.0], [0.8, 1.0], [0.1, 0.0]]),
                i64([0, 3, 2, 0]),
            ],
            class_num=4,
        ),
    ]
}
