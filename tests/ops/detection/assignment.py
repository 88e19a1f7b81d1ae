"""Samples of the ops that choose boxes to train on, as Paddle 1.8.5 computes them."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.assignment import GenerateProposalLabels, RpnTargetAssign
from graphopt_tests.ops.base import f32, i32, i64, sample

BOXES = [[0, 0, 9, 9], [10, 0, 19, 9], [0, 10, 9, 19], [12, 12, 25, 25], [5, 5, 14, 14]]
OBJECTS = [[1, 1, 10, 10], [11, 1, 19, 8], [2, 11, 9, 18]]
# the second object is one of a crowd; the third one's image is half as large as it was
GIVEN = [i32([[0], [1], [0]]), f32([[20, 20, 1.0], [20, 20, 0.5]])]
LENGTHS = i64([2, 1])
OFFSETS = [[0.1, 0.1, 0, 0], [-0.175, 0.275, -0.798508, -0.798508]]


def _at_classes(*classes: int, offsets: dict[int, list[float]]) -> tuple[np.ndarray, ...]:
    """Spread offsets to the columns of these classes of 3, and give their weights."""
    wide = np.zeros((len(classes), 3, 4))
    weight = np.zeros((len(classes), 3, 4))
    for row, label in enumerate(classes):
        if label:
            wide[row, label], weight[row, label] = offsets.get(row, [0.0] * 4), 1.0
    flat = weight.reshape(len(classes), 12)
    return wide.reshape(len(classes), 12), flat, flat


SAMPLES = {
    RpnTargetAssign: [
        # the first image trains three anchors; in the second one the anchor that is nearest to the
        # object overlaps so little that it finds none, and keeps a place without weight
        sample(
            *(f32(BOXES), f32(OBJECTS), None, *GIVEN, LENGTHS),
            rpn_batch_size_per_im=3,
            rpn_fg_fraction=0.5,
            rpn_positive_overlap=0.5,
            use_random=False,
        ).gives(
            lambda *_: (
                *([0, 5], [0, 1, 2, 5, 6], [[1], [0], [0], [0], [0]], OFFSETS),
                *([[1] * 4, [0] * 4], [1, 1], [3, 2]),
            )
        ),
        # all anchors, with the classes of the objects
        sample(
            *(f32(BOXES), f32(OBJECTS), i32([[2], [1], [3]]), *GIVEN, LENGTHS),
            rpn_batch_size_per_im=0,
            rpn_straddle_thresh=-1.0,
            rpn_positive_overlap=0.5,
            use_random=False,
        ).gives(
            lambda *_: (
                *([0, 5], list(range(10)), [[2], *[[0]] * 9], OFFSETS),
                *([[1] * 4, [0] * 4], [1, 1], [5, 5]),
            )
        ),
    ],
    GenerateProposalLabels: [
        sample(
            *(f32(BOXES), i32([[2], [1], [1]]), GIVEN[0], f32(OBJECTS), GIVEN[1]),
            *(i64([3, 2]), LENGTHS, None),
            batch_size_per_im=3,
            fg_fraction=0.7,
            fg_thresh=0.3,
            bg_thresh_hi=0.3,
            class_nums=3,
            use_random=False,
        ).gives(
            lambda *_: (
                [OBJECTS[0], BOXES[0], BOXES[2], [1, 5.5, 4.5, 9], BOXES[3], BOXES[4]],
                [[2], [2], [0], [1], [0], [0]],
                *_at_classes(2, 2, 0, 1, 0, 0, offsets={1: [1, 1, 0, 0]}),
                *([1, 0.680672, 0.04712, 1, 0, 0], [3, 3]),
            )
        ),
        sample(
            *(f32(BOXES[:3]), i32([[2], [1]]), i32([[0], [1]]), f32(OBJECTS[:2])),
            *(f32([[20, 20, 1.0]]), i64([3]), i64([2]), None),
            fg_thresh=0.3,
            bg_thresh_hi=0.3,
            class_nums=3,
            use_random=False,
            is_cascade_rcnn=True,
        ).gives(
            lambda *_: (
                [BOXES[0], BOXES[2]],
                [[2], [0]],
                *_at_classes(2, 0, offsets={0: [1, 1, 0, 0]}),
                *([0.680672, 0.04712], [2]),
            )
        ),
        # of Paddle 2.6.2: without the object itself and the box without sides, one of zeros instead
        sample(
            f32([[0, 0, 9, 9], [0, 0, 9, 11], [30, 30, 20, 20], [50, 50, 59, 59], [0, 0, 9, 9]]),
            *(i32([[1], [2], [1]]), i32([[0], [0], [1]])),
            f32([[0, 0, 9, 9], [20, 20, 39, 39], [0, 0, 9, 9]]),
            *(f32([[64, 64, 1], [64, 64, 1]]), i64([4, 1]), i64([2, 1])),
            f32([1, 0.5, 0.5, 0, 1]),
            fg_thresh=0.5,
            class_nums=3,
            use_random=False,
            is_cascade_rcnn=True,
        ).gives(
            lambda *_: (
                [[0, 0, 9, 9], [20, 20, 39, 39], [0, 0, 9, 11], [50, 50, 59, 59], [0] * 4],
                [[1], [2], [1], [0], [0]],
                *_at_classes(1, 2, 1, 0, 0, offsets={2: [0, -0.833333, 0, -0.911608]}),
                *([1, 1, 0.833333, 0, 0.01], [4, 1]),
            )
        ),
    ],
}
