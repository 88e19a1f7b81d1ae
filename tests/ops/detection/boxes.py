"""Samples of anchors, of boxes as offsets from anchors, and of overlaps of boxes."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection import boxes as ops
from graphopt_tests.ops.base import f32, f64, sample

TWO = [[0.0, 0.0, 4.0, 4.0], [2.0, 2.0, 6.0, 4.0]]
UNIT = [1.0, 1.0, 1.0, 1.0]
ALL = (1.0, 1.0, 1.0, 1.0)


SAMPLES = {
    ops.PriorBox: [
        sample(f32(1, 1, 1, 2), f32(1, 3, 8, 16), min_sizes=(4.0,), variances=ALL).gives(
            lambda x, image: (
                [[[[0.125, 0.25, 0.375, 0.75]], [[0.625, 0.25, 0.875, 0.75]]]],
                [[[UNIT], [UNIT]]],
            )
        ),
        sample(
            f32(1, 1, 2, 2),
            f32(1, 3, 8, 8),
            min_sizes=(2.0,),
            max_sizes=(8.0,),
            aspect_ratios=(1.0, 2.0),
            flip=True,
            clip=True,
            min_max_aspect_ratios_order=True,
        ),
        sample(
            f64(1, 1, 2, 3),
            f64(1, 3, 9, 7),
            min_sizes=(2.0, 3.0),
            max_sizes=(8.0, 5.0),
            aspect_ratios=(0.5, 3.0),
            step_w=2.0,
            step_h=3.0,
            offset=0.25,
        ),
    ],
    ops.DensityPriorBox: [
        sample(
            f32(1, 1, 1, 1),
            f32(1, 3, 8, 8),
            densities=(1,),
            fixed_sizes=(4.0,),
            fixed_ratios=(1.0,),
            variances=ALL,
            flatten_to_2d=True,
        ).gives(lambda x, image: ([[0.25, 0.25, 0.75, 0.75]], [UNIT])),
        sample(
            f32(1, 1, 2, 2),
            f32(1, 3, 8, 8),
            densities=(2, 1),
            fixed_sizes=(4.0, 2.0),
            fixed_ratios=(1.0, 2.0),
        ),
        # boxes are a whole number of pixels apart
        sample(
            f64(1, 1, 2, 1),
            f64(1, 3, 14, 7),
            densities=(2, 3),
            fixed_sizes=(9.0, 1.0),
            fixed_ratios=(2.0,),
            step_w=7.0,
            step_h=8.5,
            offset=-1.0,
            clip=True,
        ),
        # boxes beside the image
        sample(
            f64(1, 1, 1, 3),
            f64(1, 3, 8, 8),
            densities=(1,),
            fixed_sizes=(4.0,),
            fixed_ratios=(1.0,),
            variances=ALL,
            step_w=8.0,
            step_h=8.0,
            offset=-0.5,
        ).gives(
            lambda x, image: (
                [[[[0, 0, -0.25, -0.25]], [[0.25, 0, 0.75, -0.25]], [[1.25, 0, 1, -0.25]]]],
                np.ones((1, 3, 1, 4)),
            )
        ),
    ],
    ops.AnchorGenerator: [
        sample(
            f32(1, 1, 1, 1), anchor_sizes=(32.0,), aspect_ratios=(1.0,), stride=(16.0, 16.0)
        ).gives(
            lambda x: ([[[[-8.0, -8.0, 23.0, 23.0]]]], [[[[0.1, 0.1, 0.2, 0.2]]]]),
        ),
        sample(
            f64(1, 1, 2, 3),
            anchor_sizes=(8.0, 16.0),
            aspect_ratios=(0.5, 2.0),
            stride=(4.0, 8.0),
        ),
    ],
    ops.BoxCoder: [
        sample(f32(TWO[:1]), None, f32(TWO[1:]), variance=(0.5, 0.5, 1.0, 1.0)).gives(
            lambda p, v, t: [[[1.0, 0.5, 0.0, np.log(0.5)]]]
        ),
        sample(
            f64(TWO[:1]),
            f64([[0.5, 0.5, 1.0, 1.0]]),
            f64([[[1.0, 0.5, 0.0, np.log(0.5)]]]),
            code_type="decode_center_size",
        ).gives(lambda p, v, t: [TWO[1:]]),
        sample(
            f64(TWO),
            None,
            f64(2, 3, 4),
            code_type="decode_center_size",
            axis=1,
            box_normalized=False,
        ),
        sample(f64(TWO), f64(2, 4), f64(2, 3, 4), code_type="decode_center_size", axis=1),
        sample(f64(TWO), f64(2, 4), f64([*TWO, [1.0, 1.0, 2.0, 5.0]]), box_normalized=False),
        sample(f32(TWO), None, f32(0, 4)),
    ],
    ops.IouSimilarity: [
        sample(f32(TWO), f32(TWO)).gives(lambda x, y: [[1, 0.2], [0.2, 1]]).kinked(),
        sample(f64([[0.0, 0.0, 1.0, 1.0]]), f64([[2.0, 0.0, 3.0, 1.0]])).gives(lambda x, y: [[0]]),
        sample(f32(TWO), f32([[1.0, 1.0, 2.0, 5.0]]), box_normalized=False).gives(
            lambda x, y: [[8 / 27], [3 / 22]]
        ),
        sample(f32(0, 4), f32(TWO)),
        # boxes without an area
        sample(f32([UNIT]), f32([UNIT])).gives(lambda x, y: [[0]]).kinked(),
    ],
}
