"""Samples of boxes with offsets and of quadrangles."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.detection.warped import DeformablePsroiPool, RoiPerspectiveTransform
from graphopt_tests.ops.base import Array, f32, f64, i32, sample


def between(image: Array, column: float, row: float) -> Array:
    """Interpolate the value [c] at a point of an image [c, h, w] from its four pixels."""
    height, width = image.shape[1:]
    column, row = min(max(column, 0), width - 1), min(max(row, 0), height - 1)
    left, above = int(column), int(row)
    right, below = min(left + 1, width - 1), min(above + 1, height - 1)
    x, y = column - left, row - above
    upper = image[:, above, left] * (1 - x) + image[:, above, right] * x
    lower = image[:, below, left] * (1 - x) + image[:, below, right] * x
    return upper * (1 - y) + lower * y


def one_cell(x: Array, boxes: Array, _: Array, offsets: Array) -> tuple[Array, Array]:
    """Compute the only cell of a box, from two by two points, as far as they are in the image."""
    height, width = x.shape[2:]
    means, counts = [], []
    for (x0, y0, x1, y1), move in zip(np.round(boxes), offsets[:, :, 0, 0] * 0.1, strict=True):
        wide, tall = x1 + 1 - x0, y1 + 1 - y0
        start = x0 - 0.5 + move[0] * wide, y0 - 0.5 + move[1] * tall
        points = [
            (start[0] + i * wide / 2, start[1] + j * tall / 2) for i in (0, 1) for j in (0, 1)
        ]
        inside = [
            between(x[0], a, b)
            for a, b in points
            if -0.5 <= a <= width - 0.5 and -0.5 <= b <= height - 0.5
        ]
        means.append(np.mean(inside, 0))
        counts.append(np.full(x.shape[1], len(inside)))
    shape = (len(boxes), x.shape[1], 1, 1)
    return np.reshape(means, shape), np.reshape(counts, shape)


def turned(x: Array, rois: Array, _: Array) -> tuple[Array, ...]:
    """Cut two squares, of which the second is rotated by a quarter."""
    parts = np.stack([x[0, :, 1:4, 1:4], np.rot90(x[0, :, 0:3, 2:5], 1, (1, 2))])
    matrix = [[1, 0, 1, 0, 1, 1, 0, 0, 1], [0, -1, 4, 1, 0, 0, 0, 0, 1]]
    return parts, np.ones((2, 1, 3, 3)), np.array(matrix)


BOXES = [[0.0, 0.0, 3.0, 2.0], [2.0, 1.0, 5.6, 4.0]]
SAMPLES = {
    DeformablePsroiPool: [
        sample(
            *(f64(1, 2, 5, 6), f64(BOXES), i32([2]), f64(np.full((2, 2, 1, 1), 0.7).tolist())),
            output_dim=2,
            sample_per_part=2,
        )
        .gives(one_cell)
        .kinked(),
        # two classes of offsets, and parts of the grid that are no square
        sample(
            *(f64(1, 8, 5, 6), f64(BOXES), i32([2]), f64(2, 4, 2, 3)),
            output_dim=4,
            group_size=(2, 1),
            pooled_height=2,
            pooled_width=3,
            part_size=(2, 3),
            sample_per_part=2,
        ).kinked(),
        # each cell of 2 by 2 has a channel of its own
        sample(
            *(f32(1, 4, 4, 4), f32([[0.0, 0.0, 3.0, 3.0]]), i32([1]), None),
            output_dim=1,
            group_size=(2, 2),
            pooled_height=2,
            pooled_width=2,
        ).gives(
            lambda x, *_: (
                [
                    [
                        [
                            [x[0, 0, 0, 0], (x[0, 1, 0, 1] + x[0, 1, 0, 2]) / 2],
                            [(x[0, 2, 1, 0] + x[0, 2, 2, 0]) / 2, x[0, 3, 1:3, 1:3].mean()],
                        ]
                    ]
                ],
                np.ones((1, 1, 2, 2)),
            )
        ),
    ],
    RoiPerspectiveTransform: [
        sample(
            f64(1, 2, 5, 6),
            f64([[1.0, 1, 3, 1, 3, 3, 1, 3], [4, 0, 4, 2, 2, 2, 2, 0]]),
            i32([2]),
            transformed_height=3,
            transformed_width=3,
        )
        .gives(turned)
        .kinked(),
    ],
}
