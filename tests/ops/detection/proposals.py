"""Samples of the ops that choose boxes."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.proposals import (
    CollectFpnProposals,
    DistributeFpnProposals,
    GenerateProposals,
    MatrixNms,
    MulticlassNms,
    Nms,
)
from graphopt_tests.ops.base import f32, f64, i32, sample

# the second covers the first by half, the third lies alone
BOXES = [[0.0, 0.0, 2.0, 1.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 6.0]]
MARKS = [[0.9, 0.8, 0.7], [0.1, 0.1, 0.6]]
LIMITS = {"score_threshold": 0.5, "nms_top_k": -1, "keep_top_k": -1, "background_label": -1}
ALONE = (2, 5, 3, 5, 4)


SAMPLES = {
    Nms: [
        sample(f32(BOXES), threshold=0.4).gives(lambda boxes: [0, 2]),
        sample(f64(BOXES), threshold=0.5).gives(lambda boxes: [0, 1, 2]),
    ],
    MulticlassNms: [
        sample(f32([BOXES]), f32([MARKS]), None, nms_threshold=0.4, **LIMITS).gives(
            lambda b, s, n: (
                [
                    [0, 0.9, *BOXES[0]],
                    [0, 0.7, *BOXES[2]],
                    [1, 0.6, *BOXES[2]],
                ],
                [[0], [2], [2]],
                [3],
            )
        ),
        sample(
            f64(np.array(BOXES)[:, None].tolist()),
            f64(np.array(MARKS)[0, :, None].tolist()),
            i32([1, 2]),
            nms_threshold=0.4,
            **LIMITS,
        ).gives(
            lambda b, s, n: (
                [[0, 0.9, *BOXES[0]], [0, 0.8, *BOXES[1]], [0, 0.7, *BOXES[2]]],
                [[0], [1], [2]],
                [1, 2],
            )
        ),
        sample(f32([BOXES]), f32([MARKS]), None, **{**LIMITS, "score_threshold": 2.0}).gives(
            lambda b, s, n: (np.zeros((0, 6)), np.zeros((0, 1)), [0])
        ),
    ],
    MatrixNms: [
        sample(f64([BOXES]), f64([MARKS]), **LIMITS).gives(
            lambda b, s: (
                [
                    [0, 0.9, *BOXES[0]],
                    [0, 0.7, *BOXES[2]],
                    [1, 0.6, *BOXES[2]],
                    [0, 0.4, *BOXES[1]],
                ],
                [[0], [2], [2], [1]],
                [4],
            )
        ),
        sample(f32([BOXES]), f32([MARKS]), use_gaussian=True, **{**LIMITS, "keep_top_k": 1}).gives(
            lambda b, s: ([[0, 0.9, *BOXES[0]]], [[0]], [1])
        ),
    ],
    GenerateProposals: [
        sample(
            f32([[[[0.5, 0.9]]]]),
            f32(np.zeros((1, 4, 1, 2)).tolist()),
            f32([[10.0, 10.0]]),
            f32([[[[0.0, 0.0, 4.0, 4.0]], [[6.0, 6.0, 12.0, 12.0]]]]),
            f32(np.ones((1, 2, 1, 4)).tolist()),
            pixel_offset=False,
        ).gives(
            lambda *_: ([[6, 6, 10, 10], [0, 0, 4, 4]], [[0.9], [0.5]], [2]),
        ),
        sample(
            f64([[[[0.5]]]]),
            f64(np.zeros((1, 4, 1, 1)).tolist()),
            f64([[10.0, 10.0]]),
            f64([[[[0.0, 0.0, 4.0, 4.0]]]]),
            f64(np.ones((1, 1, 1, 4)).tolist()),
            min_size=100.0,
        ).gives(lambda *_: ([[0, 0, 0, 0]], [[0]], [1])),
    ],
    DistributeFpnProposals: [
        sample(
            f32([[0.0, 0.0, 16.0, 16.0], [0.0, 0.0, 64.0, 64.0], [0.0, 0.0, 8.0, 8.0]]),
            i32([2, 1]),
            min_level=2,
            max_level=3,
            refer_level=2,
            refer_scale=16,
            pixel_offset=False,
        ).gives(lambda b, n: (b[[0, 2]], b[[1]], [[0], [2], [1]], [1, 1], [1, 0])),
    ],
    CollectFpnProposals: [
        sample(
            [f32(BOXES), f32(BOXES[:1])],
            [f32([[0.9], [0.1], [0.5]]), f32([[0.7]])],
            [i32([1, 2]), i32([0, 1])],
            post_nms_top_n=3,
        ).gives(lambda r, s, n: (np.array(BOXES)[[0, 0, 2]], [1, 2])),
    ],
}
